//! Text that is safe inside HTML, and numbers as people read them.

/// Text for element content and quoted attributes. Control characters, which no text needs, become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// With a capital first letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    first + letters.as_str()
}

/// With a capital first letter and a full stop.
pub(super) fn sentence(text: &str) -> String {
    capital(text.trim_end_matches('.')) + "."
}

/// Four significant digits; a dash for what is missing.
pub(super) fn short(x: Option<f64>) -> String {
    match x {
        None => "–".into(),
        Some(0.0) => "0".into(),
        Some(x) if (1e-4..1e6).contains(&x.abs()) => certus::certificate::significant(x, 4),
        Some(x) => format!("{x:.3e}"),
    }
}

/// Three significant digits.
pub(super) fn number(x: f64) -> String {
    match x {
        0.0 => "0".into(),
        x if !x.is_finite() => "–".into(),
        x if (1e-3..1e5).contains(&x.abs()) => certus::certificate::significant(x, 3),
        x => format!("{x:.2e}"),
    }
}

/// A count with thin spaces between thousands.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A time as people say it.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{:.0} ms", (1e3 * s).max(1.0)),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A length as an SVG percentage of a fraction.
pub(super) fn percent(fraction: f64) -> String {
    format!("{:.2}%", 100.0 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (x, text) in
            [(1.0, "1.000"), (-123.456, "-123.5"), (1.5e-7, "1.500e-7"), (12345.6, "12346"), (0.0, "0")]
        {
            assert_eq!(short(Some(x)), text);
        }
        assert_eq!((short(None).as_str(), count(1_234_567).as_str()), ("–", "1\u{202f}234\u{202f}567"));
        assert_eq!([0.0123, 5.04, 300.0, 7200.0].map(time), ["12 ms", "5.0 s", "5.0 min", "2.0 h"]);
    }

    #[test]
    fn nothing_escapes() {
        assert_eq!(
            escape("<a b=\"c\" d='e'>&\u{7}\n"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{fffd}\n"
        );
    }
}
