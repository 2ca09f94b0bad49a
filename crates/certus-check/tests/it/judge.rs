//! What the tests of all rules share: a certificate is judged as it is written, with its rows, and each of a list of
//! flaws must be seen for the reason that is expected.

use certus_check::{
    Certificate, DrawsCertificate, MixedCertificate, Refusal, Rule, SdCertificate, check, read,
};

/// A certificate of any claim, and its text.
pub(crate) trait Written: Rule + Clone + PartialEq + std::fmt::Debug {
    fn from_text(text: &str) -> Result<Self, Refusal>;
    fn to_text(&self) -> String;
    /// Numbers per row of the file of rows.
    fn numbers_per_row(&self) -> usize;
}

macro_rules! written {
    ($($certificate:ty),*) => {$(
        impl Written for $certificate {
            fn from_text(text: &str) -> Result<Self, Refusal> {
                Self::read(text)
            }
            fn to_text(&self) -> String {
                self.write()
            }
            fn numbers_per_row(&self) -> usize {
                self.numbers()
            }
        }
    )*};
}

written!(Certificate, SdCertificate, DrawsCertificate, MixedCertificate);

/// A name, the text and the rows of a certificate that is true.
pub(crate) type Case = (&'static str, &'static str, &'static [u8]);

/// What is wrong, a part of the reason that must be given, and how a true certificate becomes a false one.
pub(crate) type Flaw<C> = (&'static str, &'static str, fn(&mut C, &mut Vec<u8>));

/// What is said of a certificate that was read from its text, with all rows.
pub(crate) fn judge<C: Written>(certificate: &C, mut rows: &[u8]) -> Result<(), Refusal> {
    let text = certificate.to_text();
    let again = C::from_text(&text)?;
    assert_eq!(&again, certificate, "what is written is what is read");
    // the claim names the rule
    read(&text)?;
    check(&again, Some(&mut rows)).map(drop)
}

/// Every case is proved; without its last row, or with any of the flaws it is not, for its reason.
pub(crate) fn flaws_are_seen<C: Written>(cases: &[Case], flaws: &[Flaw<C>]) {
    assert!(!cases.is_empty() && !flaws.is_empty());
    for (name, text, rows) in cases {
        let whole = C::from_text(text).unwrap();
        assert_eq!(judge(&whole, rows), Ok(()), "{name}");
        let without_last = &rows[..rows.len() - 8 * whole.numbers_per_row()];
        assert!(judge(&whole, without_last).is_err(), "{name}, without its last row");
        for (what, reason, flaw) in flaws {
            let (mut certificate, mut rows) = (whole.clone(), rows.to_vec());
            flaw(&mut certificate, &mut rows);
            match judge(&certificate, &rows) {
                Ok(()) => panic!("{name}, {what}: proved"),
                Err(refusal) => assert!(refusal.to_string().contains(reason), "{name}, {what}: {refusal}"),
            }
        }
    }
}

/// Texts with one replacement are not checkable, and those with another are malformed.
pub(crate) fn edits_are_seen<C: Written>(text: &str, unknown: &[(&str, &str)], malformed: &[(&str, &str)]) {
    let edited = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        C::from_text(&text.replacen(from, to, 1))
    };
    for (from, to) in unknown {
        let found = edited(from, to);
        assert!(matches!(found, Err(Refusal::NotCheckable(_))), "{to}: {found:?}");
    }
    for (from, to) in malformed {
        let found = edited(from, to);
        assert!(matches!(found, Err(Refusal::NotProved(_))), "{to}: {found:?}");
    }
}
