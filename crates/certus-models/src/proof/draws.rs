//! Certificates about means and sds of the posterior (docs/certificate-format.md, sections 13 to 15): a pilot of other
//! draws chooses the set A, the cap and the level, then the certificate's own draws are weighed once. Nothing here is
//! trusted.

use certus_check::{Ball, Direction, DrawsCertificate, Refusal, Rule, check, leaf, root, sha256};

use super::{Subject, encoded, refused};
use crate::error::Error;

/// Pairs of the pilot.
const PILOT: u64 = 1000;
/// Pairs at most, and at least.
const PAIRS: (u64, u64) = (1000, 1 << 15);
/// Rows times pairs, about.
const WORK: u64 = 25_000_000;
/// ξ.
const CLIP: f64 = 4.0;
/// Quantiles of the pilot at which A is tried, and factors of its largest values.
const QUANTILES: [f64; 6] = [0.9, 0.95, 0.98, 0.99, 0.995, 1.0];
const BEYOND: [f64; 3] = [1.0, 1.1, 1.25];
/// What τ is above w₀ and 0.
const ABOVE: [f64; 8] = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 2.5];
/// More than what rounding makes of weights that are all equal.
const EXACT: f64 = 1e-6;
/// The part of its width by which an interval is claimed wider at either end, for checkers that round otherwise.
const ROOM: f64 = 1e-6;

fn words(refusal: Refusal) -> Error {
    refused(refusal.to_string())
}

impl Subject<'_> {
    /// The certificate that the posterior means and sds of combinations of the coefficients are in intervals, with the
    /// probability 1 − δ, from so many pairs of draws (or as many as take some seconds).
    pub fn weigh(
        &self,
        combinations: &[(String, Vec<f64>)],
        pairs: Option<u64>,
        delta: f64,
    ) -> Result<DrawsCertificate, Error> {
        let own = &self.certificate;
        let blocks = self.all_blocks()?;
        let hashes: Vec<_> = blocks.iter().map(|bytes| leaf(bytes)).collect();
        let direction = |(name, weights): &(String, Vec<f64>)| Direction {
            name: encoded(name),
            weights: weights.clone(),
            mean: [0.0; 2],
            sd: [0.0; 2],
        };
        let mut out = DrawsCertificate {
            delta,
            model: own.model.clone(),
            rows: [own.rows, own.block_rows],
            root: root(&hashes),
            mean: own.mean.clone(),
            factor: own.factor.clone(),
            pairs: PILOT,
            level: 0.0,
            growth: [0.0, 1.0],
            cap: [1.0, CLIP],
            directions: combinations.iter().map(direction).collect(),
            seed: sha256(&[b"pilot", &root(&hashes)]),
            tail: 2.0,
            divergence: 1.0,
            blocks: hashes,
            draws: Default::default(),
        };
        out.requirements().map_err(words)?;
        let pilot = drawn(&out, &blocks)?;
        out.pairs = pairs.unwrap_or_else(|| (WORK / own.rows.max(1)).clamp(PAIRS.0, PAIRS.1));
        plan(&mut out, &pilot)?;
        out.seed = sha256(&[out.above().as_bytes()]);
        let all = drawn(&out, &blocks)?;
        out.tail = tail(&out, out.outside(&all)) * (1.0 - 1e-9);
        out.requirements().map_err(words)?;
        let found = out.weigh().map_err(words)?;
        out.divergence = found.divergence * (1.0 + ROOM);
        for (direction, [mean, sd]) in out.directions.iter_mut().zip(found.moments) {
            let wider = |[low, high]: [f64; 2]| {
                let room = ROOM * (high - low);
                [low - room, high + room]
            };
            (direction.mean, direction.sd) = (wider(mean), wider(sd).map(|sd| sd.max(0.0)));
        }
        if !(out.directions.iter().flat_map(|d| d.mean.iter().chain(&d.sd)).all(|x| x.is_finite())) {
            return Err(refused("the draws bound no mean"));
        }
        Ok(out)
    }

    fn all_blocks(&self) -> Result<Vec<Vec<u8>>, Error> {
        (0..self.blocks()).map(|k| self.block(k)).collect()
    }

    /// The same certificate, read from its text and proved by certus-check with all rows.
    pub fn weighed(
        &self,
        combinations: &[(String, Vec<f64>)],
        pairs: Option<u64>,
        delta: f64,
    ) -> Result<DrawsCertificate, Error> {
        let text = self.weigh(combinations, pairs, delta)?.write();
        let certificate = DrawsCertificate::read(&text).map_err(words)?;
        check(&certificate, Some(&mut &self.all_blocks()?.concat()[..])).map_err(words)?;
        Ok(certificate)
    }
}

/// log W and |∇W| at all draws.
fn drawn(certificate: &DrawsCertificate, blocks: &[Vec<u8>]) -> Result<Vec<(Ball, f64)>, Error> {
    for (k, bytes) in blocks.iter().enumerate() {
        certificate.rows(k, bytes).map_err(words)?;
    }
    certificate.log_weights().map_err(words)
}

/// About the largest z that is proved where so many pairs are outside of A.
fn tail(certificate: &DrawsCertificate, outside: u64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if certificate.tail_is_proved(middle, outside) { low = middle } else { high = middle }
    }
    low
}

/// Level, A and cap with the narrowest intervals, as the pilot foresees them.
fn plan(out: &mut DrawsCertificate, pilot: &[(Ball, f64)]) -> Result<(), Error> {
    let values: Vec<f64> = pilot.iter().map(|(v, _)| v.mid).collect();
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().map(|v| (v - most).exp()).sum::<f64>() / values.len() as f64;
    out.level = -(most + mean.ln());
    let sorted = |numbers: Vec<f64>| {
        let mut numbers = numbers;
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let shifted: Vec<f64> = values.iter().map(|v| v + out.level).collect();
    let (v, steep) = (sorted(shifted), sorted(pilot.iter().map(|(_, steep)| *steep).collect()));
    let count = v.len() as f64;
    let (n, log) = (out.pairs as f64, out.share().mid + std::f64::consts::LN_2);
    let mut best: Option<(f64, [f64; 2], [f64; 2])> = None;
    for (quantile, beyond) in QUANTILES.iter().flat_map(|q| BEYOND.iter().map(move |b| (*q, *b))) {
        if quantile < 1.0 && beyond > 1.0 {
            continue;
        }
        let at = ((quantile * count) as usize).min(v.len() - 1);
        // where q is exact all draws are alike but for rounding
        let growth = [v[at] + (beyond - 1.0) + EXACT, steep[at] * beyond + EXACT];
        let outside = pilot.iter().filter(|(v, s)| v.mid + out.level > growth[0] || *s > growth[1]).count();
        let expected = n * outside as f64 / count;
        let z = tail(out, (expected + 2.0 * expected.sqrt() + 1.0) as u64);
        if growth[1] >= z {
            continue;
        }
        for above in ABOVE {
            let cap = [growth[0].max(0.0) + above, CLIP];
            let trial = DrawsCertificate { growth, cap, tail: z, ..out.clone() };
            let [t0, t1, t2, _] = trial.tails();
            let ranges = cap[0].exp() * (CLIP + 0.5 * CLIP * CLIP) * 7.0 * log / (3.0 * n);
            let width = t1 + 0.5 * (t0 + t2) + ranges;
            if width.is_finite() && best.is_none_or(|(other, ..)| width < other) {
                best = Some((width, growth, cap));
            }
        }
    }
    let none = "the weights of its posterior have no tail that is proved: q is too far from it, or there are \
                too few draws";
    let (_, growth, cap) = best.ok_or_else(|| refused(none))?;
    (out.growth, out.cap) = (growth, cap);
    Ok(())
}
