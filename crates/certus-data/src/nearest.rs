//! The name that was probably meant.

/// ": did you mean …?" with the name of least edit distance, or "; available: …" if none is near.
pub fn nearest<'a>(names: impl Iterator<Item = &'a str> + Clone, wanted: &str) -> String {
    let folded = wanted.to_lowercase();
    let best = names.clone().map(|n| (distance(&n.to_lowercase(), &folded), n)).min_by_key(|(d, _)| *d);
    match best {
        // half of it at least is the same
        Some((d, name)) if d <= wanted.chars().count().div_ceil(3) && 2 * d <= wanted.chars().count() => {
            format!(": did you mean '{name}'?")
        }
        Some(_) => {
            let all: Vec<String> = names.map(String::from).collect();
            format!("; available: {}", first_names(&all, 20))
        }
        None => "; none is available".into(),
    }
}

/// [`nearest`] among names that are kept.
pub(crate) fn nearest_of(names: &[String], wanted: &str) -> String {
    nearest(names.iter().map(String::as_str), wanted)
}

/// The first names of a list, with dots if there are more than `most`.
pub(crate) fn first_names(names: &[String], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    format!("{shown}{}", if names.len() > most { ", …" } else { "" })
}

/// Least number of letters to insert, delete or replace (Levenshtein), one row of the table at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances() {
        for (a, b, d) in [("kitten", "sitting", 3), ("", "abc", 3), ("rain", "rian", 2), ("same", "same", 0)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (d, d));
        }
        assert_eq!(nearest(["distance", "rain"].into_iter(), "Distnace"), ": did you mean 'distance'?");
        assert_eq!(nearest(["distance", "rain"].into_iter(), "xyzzy"), "; available: distance, rain");
        assert_eq!(nearest(["0", "1"].into_iter(), "2"), "; available: 0, 1");
    }
}
