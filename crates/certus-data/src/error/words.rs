//! Parts of the sentences of errors.

pub(super) fn prefix(within: &Option<String>) -> String {
    within.as_ref().map_or(String::new(), |what| format!("{what}: "))
}

pub(super) fn of(file: &Option<String>) -> String {
    file.as_ref().map_or(String::new(), |file| format!(" of {file}"))
}

pub(super) fn wrong_kind(first_cell: &Option<String>, required: &str) -> String {
    match first_cell {
        Some(cell) => format!(": its first cell is {cell}, but {required} are required"),
        None => format!("; required: {required}"),
    }
}

pub(super) fn no_rows(incomplete: usize) -> String {
    match incomplete {
        0 => "there is no row of data".into(),
        n => format!("none of the {n} rows is complete: each has a missing value in a column that is used"),
    }
}

pub(super) fn without_group(predictable: bool) -> &'static str {
    if predictable { ": groups new or population predicts without it" } else { "" }
}
