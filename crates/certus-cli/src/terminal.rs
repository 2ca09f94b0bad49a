//! What a terminal is given: control and bidirectional characters of names and messages are spelt out, so that no
//! data file can move its cursor, change its title or turn its text around; and stderr that is lost ends nothing.

use std::borrow::Cow;
use std::io::{IsTerminal, Write as _};

/// True for what a terminal obeys instead of showing it: control characters but line ends and tabs, marks of the
/// direction of text, and separators of lines and paragraphs.
fn commands(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text with such characters as `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    spelt(text, |c| format!("\\u{{{:x}}}", c as u32))
}

/// The same of a cell of a table, where a name with a line end would look like a row.
pub fn cell(text: &str) -> String {
    plain(text).replace('\n', "\\u{a}").replace('\t', "\\u{9}")
}

/// JSON with such characters as `\u001b`, which stands for the same text: the only place of JSON that can have them is
/// within strings.
pub fn plain_json(text: &str) -> Cow<'_, str> {
    spelt(text, |c| format!("\\u{:04x}", c as u32))
}

fn spelt(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if commands(c) { out.push_str(&escape(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Data for stdout: as they are in a file or a pipe, spelt out on a terminal.
pub fn data(text: &str) -> Cow<'_, str> {
    if std::io::stdout().is_terminal() { plain(text) } else { Cow::Borrowed(text) }
}

/// A line on stderr, in one write, so that lines of other ranks do not come between. If nobody can read it, the run
/// goes on: its result and its exit code do not depend on it.
pub fn say(line: &str) {
    let line = format!("{}\n", plain(line));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelt_out() {
        let all = "a\u{1b}]0;x\u{7}b\u{202e}c\u{9b}d\u{7f}e\u{2066}f\rg\u{2028}h\u{0}";
        assert_eq!(
            plain(all),
            "a\\u{1b}]0;x\\u{7}b\\u{202e}c\\u{9b}d\\u{7f}e\\u{2066}f\\u{d}g\\u{2028}h\\u{0}"
        );
        assert_eq!(plain_json("\"\u{202e}\u{7f}\""), "\"\\u202e\\u007f\"");
        assert_eq!(
            serde_json::from_str::<String>(&plain_json("\"\u{202e}\u{7f}\"")).ok().as_deref(),
            Some("\u{202e}\u{7f}")
        );
        assert_eq!(cell("a\nb\tc"), "a\\u{a}b\\u{9}c");
        for shown in ["", "naïve\tm² ± 0.1\n", "中文 עברית العربية"] {
            assert!(matches!(plain(shown), Cow::Borrowed(same) if same == shown));
        }
    }
}
