//! The certificate of the gap, or of the interval of an sd, in the report, and how to check it without certus.

use std::fmt::Write;

use super::html::{escape, sentence};
use super::{Extras, section};

/// Certificates that are longer are not shown: `certus export-proof` writes them.
const MOST: usize = 200_000;

/// The section, if it is known whether there is a certificate.
pub(super) fn part(out: &mut String, extras: &Extras) {
    let Some(certificate) = &extras.certificate else { return };
    section(out, "proof", "A certificate that anyone can check");
    let text = match certificate {
        Ok(text) => text,
        Err(why) => {
            let _ = writeln!(out, "<p>{}</p></section>", escape(&sentence(why)));
            return;
        }
    };
    let directory = escape(extras.directory.as_deref().unwrap_or("DIR"));
    let (file, what) = match text.contains("\nclaim sd-interval\n") {
        true => ("sd", "That the sd has a maximum in its interval"),
        false => ("gap", "The bound on the gap"),
    };
    let _ = write!(
        out,
        "<p>{what} is also proved by a certificate: a text with the model, the estimate, hashes and sums of the \
            rows, and what a checker needs to verify a theorem with every rounding error included. This command writes \
            it, with the rows:</p><pre>certus export-proof {directory} --to {file}.proof</pre><p>Two programs check it \
            without certus: certus-check (Rust, only its standard library; crates/certus-check) and \
            check_certificate.py (Python, only its standard library; tools). The format, the theorem and its proof are \
            on one page, docs/certificate-format.md, so that you can write another one.</p>\
            <pre>certus-check {file}.proof {file}.rows\npython3 check_certificate.py {file}.proof {file}.rows\n\
            certus-check {file}.proof {file}.rows --block 0</pre><p>The last command checks one block of rows through \
            the hash tree.</p>"
    );
    if text.len() > MOST {
        let _ =
            writeln!(out, "<p>It has {} lines and is not shown here.</p></section>", text.lines().count());
        return;
    }
    let _ = writeln!(
        out,
        "<details><summary>{file}.proof</summary><pre>{}</pre></details></section>",
        escape(text.trim_end())
    );
}
