//! Data that no model can use, that leave nothing to estimate, or whose numbers are at the ends of what there is.

use super::table::{Left, Row, columns};

fn fit(what: &str, csv: impl Into<Vec<u8>>, more: &[&str], code: i32, words: &str) -> Row {
    let fit = ["fit", "logistic", "f.csv", "--response", "y"];
    Row::run(what, &[&fit[..], more, &["--out", "out"]].concat(), code, words).file("f.csv", csv)
}

/// Data that are refused: nothing is left.
fn refused(what: &str, csv: impl Into<Vec<u8>>, more: &[&str], words: &str) -> Row {
    fit(what, csv, more, 65, words).leaves(Left::Nothing)
}

/// Data that can be fitted all the same.
fn fine(what: &str, csv: impl Into<Vec<u8>>, more: &[&str], words: &str) -> Row {
    fit(what, csv, more, 0, words).leaves(Left::Result("reached"))
}

/// With another model.
fn model(name: &str, row: &str, csv: String, more: &[&str], code: i32, words: &str) -> Row {
    let fit = ["fit", name, "f.csv", "--response", "y"];
    Row::run(row, &[&fit[..], more, &["--out", "out"]].concat(), code, words).file("f.csv", csv)
}

/// 40 rows of `y` in 0 and 1 with this cell of `x`.
fn x(cell: impl Fn(usize) -> String) -> String {
    columns("y,x", 40, |i| format!("{},{}", u8::from(i * 3 % 7 > 3), cell(i)))
}

fn number(i: usize) -> f64 {
    (i * 7 % 11) as f64 / 4.0 - 1.2
}

#[allow(clippy::too_many_lines)]
pub fn rows() -> Vec<Row> {
    let usual = || x(|i| number(i).to_string());
    let line = |i: usize| format!("{},{}", u8::from(i * 3 % 7 > 3), number(i));
    let mut rows = vec![
        refused("a file of 0 bytes", "", &[], "f.csv"),
        refused("a header and no rows", "y,x\n", &[], "no rows"),
        refused("line ends and nothing else", "\n\n\n", &[], "f.csv"),
        refused("two columns of one name", "y,x,x\n1,2,3\n0,1,2\n", &[], "called 'x'"),
        refused("a row with too many cells", "y,x\n1,2\n0,1,7\n", &[], "f.csv"),
        refused("a row with too few cells", "y,x\n1,2\n0\n", &[], "f.csv"),
        refused("a quote that is never closed", "y,x\n1,2\n0,\"1\n1,3\n", &[], ""),
        refused("bytes that are not UTF-8", b"y,x\n1,2\n0,\xff\xfe\n".to_vec(), &[], "f.csv"),
        refused("a file of zeros", vec![0; 4096], &[], ""),
        refused("UTF-16", b"\xff\xfey\0,\0x\0\n\x001\0,\x002\0\n\0".to_vec(), &[], ""),
        refused(
            "a cell of 2 MiB",
            format!("y,x\n1,{}\n0,a\n", "b".repeat(2 << 20)),
            &[],
            "1048576 are the most of a text",
        ),
        refused(
            "100,001 columns",
            format!(
                "y{}\n1{}\n",
                (0..100_000).map(|k| format!(",c{k}")).collect::<String>(),
                ",1".repeat(100_000)
            ),
            &["--features", "c1"],
            "100000 are the most",
        ),
        refused("no such column", usual(), &["--features", "xx"], "did you mean 'x'?"),
        refused("a response that is not there", usual().replace("y,", "yy,"), &[], "available: yy, x"),
        refused("one row", "y,x\n1,2\n", &[], ""),
        fine(
            "one class and a flat prior of the slope",
            x(|i| number(i).to_string()).replace("\n0,", "\n1,"),
            &["--prior-sd", "inf", "--posterior", "gaussian"],
            "is 1 in all 40 rows",
        ),
        fit(
            "one class and flat priors",
            x(|i| number(i).to_string()).replace("\n0,", "\n1,"),
            &["--prior-sd", "inf", "--intercept-prior-sd", "inf"],
            13,
            "",
        ),
        refused(
            "a response of text with three levels",
            columns("y,x", 9, |i| format!("{},{i}", ["a", "b", "c"][i % 3])),
            &[],
            "3 levels",
        ),
        refused(
            "a response of 0.5",
            columns("y,x", 9, |i| format!("{},{i}", 0.5 * (i % 3) as f64)),
            &[],
            "0.5",
        ),
        refused("a response that is missing", columns("y,x", 9, |i| format!(",{i}")), &[], "y"),
        refused("a missing response in one row", usual().replacen("\n1,", "\n,", 1), &[], "missing"),
        refused("a feature that is missing everywhere", x(|_| String::new()), &["--features", "x"], "x"),
        refused("a feature that is constant, and no other", x(|_| "3".into()), &[], "no feature"),
        refused(
            "numbers and text",
            x(|i| if i == 7 { "seven".into() } else { number(i).to_string() }),
            &["--features", "x"],
            "seven",
        ),
        refused(
            "an infinite cell",
            x(|i| if i == 7 { "inf".into() } else { number(i).to_string() }),
            &[],
            "inf",
        ),
        refused(
            "a cell of minus infinity",
            x(|i| if i == 7 { "-inf".into() } else { number(i).to_string() }),
            &[],
            "inf",
        ),
        refused(
            "a cell above the largest number",
            x(|i| if i == 7 { "1e309".into() } else { number(i).to_string() }),
            &[],
            "inf",
        ),
        refused(
            "whole numbers of 20 digits",
            x(|i| format!("1234567890123456789{i}")),
            &["--features", "x"],
            "digits",
        ),
        refused(
            "a weight below 0",
            columns("y,x,w", 40, |i| format!("{},{}", line(i), if i == 3 { -1 } else { 1 })),
            &["--features", "x", "--weights", "w"],
            "-1",
        ),
        refused(
            "a weight that is infinite",
            columns("y,x,w", 40, |i| format!("{},{}", line(i), if i == 3 { "inf" } else { "1" })),
            &["--features", "x", "--weights", "w"],
            "inf",
        ),
        // the posterior is the prior
        fine(
            "weights that are all 0",
            columns("y,x,w", 40, |i| format!("{},0", line(i))),
            &["--features", "x", "--weights", "w"],
            "",
        ),
        refused(
            "an offset that is infinite",
            columns("y,x,w", 40, |i| format!("{},{}", line(i), if i == 3 { "inf" } else { "1" })),
            &["--features", "x", "--offset", "w"],
            "inf",
        ),
        fine(
            "a group with one level and an unknown sd",
            columns("y,x,g", 40, |i| format!("{},a", line(i))),
            &["--features", "x", "--group", "g"],
            "sd(g)",
        ),
        fine(
            "fewer rows than columns",
            columns("y,a,b,c,d,e,f", 4, |i| {
                format!("{},{i},{},{},{},{},{}", i % 2, i * i, i % 3, 7 - i, i * 5 % 7, i * 3 % 4)
            }),
            &[],
            "",
        ),
        fine("two rows", "y,x\n1,2\n0,1\n", &[], ""),
        fine("one class with a prior", x(|i| number(i).to_string()).replace("\n0,", "\n1,"), &[], ""),
        fine(
            "separation with a prior",
            columns("y,x", 40, |i| format!("{},{i}", u8::from(i > 19))),
            &[],
            "separat",
        ),
        fit(
            "separation without a prior",
            columns("y,x", 40, |i| format!("{},{i}", u8::from(i > 19))),
            &["--prior-sd", "inf"],
            13,
            "separat",
        ),
        fine(
            "a constant feature beside another",
            columns("y,x,c", 40, |i| format!("{},3", line(i))),
            &[],
            "'c'",
        ),
        fine(
            "a feature twice under two names",
            columns("y,x,c", 40, |i| format!("{},{}", line(i), number(i))),
            &[],
            "",
        ),
        fit(
            "collinear features without a prior",
            columns("y,x,c", 40, |i| format!("{},{}", line(i), 2.0 * number(i) + 1.0)),
            &["--prior-sd", "inf"],
            13,
            "",
        ),
        fine(
            "collinear features with a prior",
            columns("y,x,c", 40, |i| format!("{},{}", line(i), 2.0 * number(i) + 1.0)),
            &[],
            "",
        ),
        fine("features of 1e150", x(|i| format!("{:e}", 1e150 * number(i))), &[], ""),
        fine("features of 1e-150", x(|i| format!("{:e}", 1e-150 * number(i))), &[], ""),
        fine("a constant far beyond the spread", x(|i| format!("{}", 1e9 + number(i))), &[], ""),
        fine("an empty line at the end", format!("{}\n", usual()), &[], ""),
        fine("a byte order mark", format!("\u{feff}{}", usual()), &["--features", "x"], ""),
        fine("line ends of Windows", usual().replace('\n', "\r\n"), &["--features", "x"], ""),
        fine(
            "a group for every row",
            columns("y,x,g", 40, |i| format!("{},g{i}", line(i))),
            &["--features", "x", "--group", "g", "--group-sd", "1"],
            "",
        ),
        // finding F7
        fine(
            "10,000 columns of which 1 is used (F7)",
            columns(&format!("y,x{}", (0..9_998).map(|k| format!(",c{k}")).collect::<String>()), 8, |i| {
                format!("{}{}", line(i), ",1".repeat(9_998))
            }),
            &["--features", "x"],
            "",
        ),
        // finding F10
        fine(
            "one bad date among 40 (F10)",
            columns("y,x,d", 40, |i| {
                format!(
                    "{},{}",
                    line(i),
                    if i == 9 { "tomorrow".into() } else { format!("2024-01-{:02}", i % 28 + 1) }
                )
            }),
            &["--features", "x,d", "--posterior", "gaussian"],
            "'d' has dates, but 'tomorrow' in row 10 of f.csv is none",
        ),
    ];
    for (what, scale) in [("1e300", 1e300), ("1e-300", 1e-300), ("5e-324", 5e-324), ("1e308", 1.5e307)] {
        let csv = x(|i| format!("{:e}", scale * (i % 11) as f64));
        rows.push(Row::shell(
            &format!("features of {what}"),
            // whatever it can do with them, it says so
            "certus fit logistic f.csv --response y --out out > said 2>&1; code=$?; cat said; case $code in \
                0|10|12|13|65) exit 0;; *) exit $code;; esac",
            0,
            "",
        ).file("f.csv", csv));
    }
    rows.extend([
        model(
            "poisson",
            "a count below 0",
            columns("y,x", 9, |i| format!("{},{}", i as i64 - 1, number(i))),
            &[],
            65,
            "-1",
        )
        .leaves(Left::Nothing),
        model(
            "poisson",
            "a count that is not whole",
            columns("y,x", 9, |i| format!("{}.5,{}", i, number(i))),
            &[],
            65,
            "0.5",
        )
        .leaves(Left::Nothing),
        model(
            "poisson",
            "a count of 1e300",
            columns("y,x", 9, |i| format!("{},{}", if i == 3 { "1e300" } else { "2" }, number(i))),
            &["--max-time", "5s"],
            11,
            "not finite",
        )
        .leaves(Left::Result("no_progress")),
        model("poisson", "no event at all", columns("y,x", 9, |i| format!("0,{}", number(i))), &[], 0, "")
            .leaves(Left::Result("reached")),
        model(
            "linear",
            "a response of 1e300",
            columns("y,x", 9, |i| format!("{}e300,{}", i % 4, number(i))),
            &["--max-time", "5s"],
            65,
            "the variance of the response y is too large",
        )
        .leaves(Left::Nothing),
        model(
            "linear",
            "a constant response",
            columns("y,x", 9, |i| format!("5,{}", number(i))),
            &[],
            65,
            "",
        ),
        model(
            "linear",
            "a response that the features give exactly",
            columns("y,x", 9, |i| format!("{i},{}", 2 * i + 1)),
            &[],
            12,
            "fitted without error",
        ),
        model("linear", "a response of text", columns("y,x", 9, |i| format!("a{i},{i}")), &[], 65, "a0"),
        model(
            "linear",
            "a response that is infinite",
            columns("y,x", 9, |i| format!("{},{i}", if i == 4 { "inf" } else { "1.5" })),
            &[],
            65,
            "inf",
        ),
        model(
            "binomial",
            "more successes than trials",
            columns("y,n,x", 9, |i| format!("{},3,{}", i % 5, number(i))),
            &["--trials", "n", "--features", "x"],
            65,
            "4",
        ),
        model(
            "binomial",
            "trials below 0",
            columns("y,n,x", 9, |i| format!("0,-3,{}", number(i))),
            &["--trials", "n", "--features", "x"],
            65,
            "-3",
        ),
    ]);
    rows
}
