//! Which claim has which rule.

use crate::draws::DrawsCertificate;
use crate::gap::Certificate;
use crate::mixed::MixedCertificate;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::sd::SdCertificate;
use crate::text::Lines;

/// Reads a certificate of any claim that is known.
pub fn read(text: &str) -> Result<Box<dyn Rule>, Refusal> {
    match Lines::begin(text)?.1 {
        crate::sd::CLAIM => Ok(Box::new(SdCertificate::read(text)?)),
        crate::mixed::CLAIM => Ok(Box::new(MixedCertificate::read(text)?)),
        crate::draws::CLAIM => Ok(Box::new(DrawsCertificate::read(text)?)),
        _ => Ok(Box::new(Certificate::read(text)?)),
    }
}
