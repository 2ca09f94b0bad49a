//! The certificates in the report, what each of them proves, and how to check it without certus.

use std::fmt::Write;

use super::html::{escape, sentence};
use super::{Extras, section};

/// Certificates that are longer are not shown: `certus export-proof` writes them.
const MOST: usize = 200_000;

/// A kind of claim: its name in the format, the name of its file, what it proves, and the option that asks for it.
type Kind = (&'static str, &'static str, &'static str, &'static str);

const KINDS: [Kind; 4] = [
    ("sd-interval", "sd", "That the sd has a maximum in its interval is also proved", ""),
    (
        "variance-maximum",
        "variances",
        "That the criterion has a maximum near the estimated variance parameters is also proved",
        "",
    ),
    (
        "posterior-moments",
        "moments",
        "Intervals that contain the means and sds of the posterior, and a bound on KL(posterior || q), are proved, \
         with probability 0.999999 from draws that can be repeated,",
        " --posterior",
    ),
    ("", "gap", "The bound on the gap is also proved", ""),
];

/// The section, if it is known whether there is a certificate.
pub(super) fn part(out: &mut String, extras: &Extras) {
    if extras.certificates.is_empty() {
        return;
    }
    section(out, "proof", "A certificate that anyone can check");
    let mut texts = Vec::new();
    for certificate in &extras.certificates {
        match certificate {
            Ok(text) => texts.push(text),
            Err(why) => {
                let _ = writeln!(out, "<p>{}</p>", escape(&sentence(why)));
            }
        }
    }
    let directory = escape(extras.directory.as_deref().unwrap_or("DIR"));
    for text in &texts {
        one(out, text, &directory);
    }
    if !texts.is_empty() {
        let _ = write!(
            out,
            "<p>Two programs check it without certus: certus-check (Rust, only its standard library; \
             crates/certus-check) and check_certificate.py (Python, only its standard library; tools). The format, the \
             theorems and their proofs are on one page, docs/certificate-format.md, so that you can write another \
             one.</p>"
        );
    }
    let _ = writeln!(out, "</section>");
}

/// What a certificate proves, the commands that write and check it, and its text.
fn one(out: &mut String, text: &str, directory: &str) {
    let is = |(claim, ..): &&Kind| text.contains(&format!("\nclaim {claim}"));
    let (claim, file, what, option) = KINDS.iter().find(is).unwrap_or(&KINDS[3]);
    let by_block = match *claim {
        "" | "sd-interval" => {
            format!(
                "<pre>certus-check {file}.proof {file}.rows --block 0</pre><p>The last command checks one block of \
                 rows through the hash tree.</p>"
            )
        }
        _ => String::new(),
    };
    let _ = write!(
        out,
        "<p>{what} by a certificate: a text with the model, the estimate, hashes of the rows, and what a checker needs \
         to verify a theorem with every rounding error included. This command writes it, with the rows:</p>\
         <pre>certus export-proof {directory}{option} --to {file}.proof</pre><p>and these check it:</p>\
         <pre>certus-check {file}.proof {file}.rows\n\
         python3 check_certificate.py {file}.proof {file}.rows</pre>{by_block}"
    );
    if text.len() > MOST {
        let _ = writeln!(out, "<p>It has {} lines and is not shown here.</p>", text.lines().count());
        return;
    }
    let _ = writeln!(
        out,
        "<details><summary>{file}.proof</summary><pre>{}</pre></details>",
        escape(text.trim_end())
    );
}
