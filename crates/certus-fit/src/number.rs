//! Numbers and lists in notes and plans, cut short.

use certus::certificate::significant;

/// Five digits, without zeros at the end.
pub(crate) fn number(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e7).contains(&x.abs()) {
        return format!("{x:.3e}");
    }
    trimmed(significant(x, 5))
}

fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Three digits.
pub(crate) fn short(x: f64) -> String {
    if (1e-3..1e4).contains(&x) { trimmed(significant(x, 3)) } else { format!("{x:.2e}") }
}

/// The first few of many.
pub(crate) fn joined(lines: &[String]) -> String {
    const MOST: usize = 20;
    let shown = lines[..lines.len().min(MOST)].join(", ");
    if lines.len() > MOST { format!("{shown} and {} more", lines.len() - MOST) } else { shown }
}
