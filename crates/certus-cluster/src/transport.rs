//! What moves numbers between processes.

/// Messages between ranks. They arrive or the process ends: a rank that is lost or silent for too long ends the whole
/// job, so nothing here returns an error. Pairs of ranks see their messages in order; `tag` tells when two ranks do not
/// run the same program.
pub trait Transport: Send + Sync + std::fmt::Debug {
    /// The number of this process.
    fn rank(&self) -> usize;
    /// How many there are.
    fn count(&self) -> usize;
    /// Sends numbers; the receiver knows how many.
    fn send(&self, to: usize, numbers: &[f64], tag: u16);
    /// Receives as many numbers as fit.
    fn receive(&self, from: usize, numbers: &mut [f64], tag: u16);
    /// The numbers of rank `from`, on every rank.
    fn broadcast(&self, from: usize, numbers: &mut [f64]);
}
