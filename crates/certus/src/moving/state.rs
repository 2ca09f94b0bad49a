//! A moving iterate as bytes and back, bit for bit.

use super::{Axes, Moving};
use crate::bytes::{Reader, Writer, bad};
use crate::error::Error;
use crate::factor::Pattern;
use crate::gaussian::Gaussian;

const MAGIC: &[u8; 16] = b"certus moving v1";

impl Moving {
    /// The state as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        self.write(&mut out);
        out.finish()
    }

    /// The state that [`Moving::encode`] wrote; `like` is any Gaussian of the same family.
    pub fn decode(bytes: &[u8], like: &Gaussian) -> Result<Self, Error> {
        let mut words = Reader::new(bytes, MAGIC)?;
        let state = Self::read(&mut words, like)?;
        words.finish()?;
        Ok(state)
    }

    /// Writes the state as a part of another.
    pub fn write(&self, out: &mut Writer) {
        for count in [self.mean.len() as u64, self.axes.values().len() as u64, self.iteration, self.averaged]
        {
            out.count(count);
        }
        out.numbers(&self.seen);
        for (mean, axes) in [(&self.mean, &self.axes), (&self.average.0, &self.average.1)] {
            out.numbers(mean.iter().chain(axes.values()));
        }
    }

    /// Reads what [`Moving::write`] wrote.
    pub fn read(words: &mut Reader<'_>, like: &Gaussian) -> Result<Self, Error> {
        let like = Axes::of(like.factor());
        let (dim, stored) = (like.dim(), like.values().len());
        if (words.count()?, words.count()?) != (dim as u64, stored as u64) {
            return Err(bad("it belongs to a problem of another size or family"));
        }
        let (iteration, averaged) = (words.count()?, words.count()?);
        let seen = words.numbers(like.parts())?;
        if seen.iter().any(|s| *s < 0.0) {
            return Err(bad("its number of pairs is negative"));
        }
        let mut part = || Ok::<_, Error>((words.numbers(dim)?, like.with_values(words.numbers(stored)?)?));
        let ((mean, axes), average) = (part()?, part()?);
        axes.gaussian(&mean)?;
        Ok(Self { mean, axes, average, averaged, seen, iteration })
    }
}

impl Axes {
    fn dim(&self) -> usize {
        match self {
            Axes::Dense { dim, .. } => *dim,
            Axes::Pattern(p) => p.tree().dim(),
        }
    }

    /// The matrix of the same space with these entries.
    fn with_values(&self, values: Vec<f64>) -> Result<Self, Error> {
        Ok(match self {
            Axes::Dense { dim, .. } => Axes::Dense { dim: *dim, values },
            Axes::Pattern(p) => Axes::Pattern(Pattern::new(p.tree().clone(), values)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::MovingMemory;
    use super::*;
    use crate::error::TargetError;
    use crate::factor::{Family, Tree};
    use crate::random::{Purpose, Random};
    use crate::target::Target;
    use std::sync::Arc;

    /// −Σ cosh z_i: steps move mean and factor.
    struct Cosh(usize);

    impl Target for Cosh {
        fn dim(&self) -> usize {
            self.0
        }

        fn log_density(
            &self,
            z: &[f64],
            values: &mut [f64],
            gradients: &mut [f64],
        ) -> Result<(), TargetError> {
            for (k, z) in z.chunks_exact(self.0).enumerate() {
                values[k] = -z.iter().map(|x| x.cosh()).sum::<f64>();
            }
            gradients.iter_mut().zip(z).for_each(|(g, x)| *g = -x.sinh());
            Ok(())
        }
    }

    #[test]
    fn a_saved_state_goes_on_with_the_same_bits() {
        let tree = Arc::new(Tree::arrow(1, &[1, 2]).expect("a tree"));
        for family in [Family::Lower, Family::Pattern(tree)] {
            let start = Gaussian::isotropic(vec![0.3, -0.2, 0.1, 0.5], 1.5, &family).expect("proper");
            let (target, random) = (Cosh(4), Random::new(3, Purpose::Step, 0));
            let (mut whole, mut memory) = (Moving::new(&start), MovingMemory::default());
            let mut parts = whole.clone();
            for k in 0..12 {
                whole.step(&target, &random, 4, &mut memory).expect("finite");
                parts.step(&target, &random, 4, &mut MovingMemory::default()).expect("finite");
                if k == 5 {
                    whole.restart_average();
                    parts.restart_average();
                }
                parts = Moving::decode(&parts.encode(), &start).expect("whole");
                assert_eq!(parts, whole);
            }
            assert_eq!(parts.averaged().expect("proper"), whole.averaged().expect("proper"));
            let bytes = whole.encode();
            for length in 0..bytes.len() {
                assert!(Moving::decode(&bytes[..length], &start).is_err());
            }
            let other = Gaussian::isotropic(vec![0.0; 3], 1.0, &Family::Lower).expect("proper");
            assert!(Moving::decode(&bytes, &other).is_err());
        }
        // a matrix that is no frame
        let start = Gaussian::isotropic(vec![0.0; 2], 1.0, &Family::Lower).expect("proper");
        let mut flat = Moving::new(&start);
        flat.axes.values_mut().fill(1.0);
        assert!(Moving::decode(&flat.encode(), &start).is_err());
    }
}
