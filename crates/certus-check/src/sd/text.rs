//! The text of a certificate about the sd of an effect (docs/certificate-format.md, "The sd of an effect").

use super::{Block, Group, Nodes, POINTS, Point, SdCertificate};
use crate::model::Model;
use crate::moments::Likelihood;
use crate::refusal::Refusal;
use crate::text::Lines;

pub(crate) const CLAIM: &str = "sd-interval";

impl SdCertificate {
    /// Reads a certificate with this claim.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let (mut lines, _) = Lines::begin(text)?;
        let between = lines.numbers("sd-between", 2)?;
        let between = [between[0], between[1]];
        let model = Model::read(&mut lines)?;
        let d = model.dim();
        if !matches!(model.likelihood, Likelihood::Logistic | Likelihood::Binomial) {
            let words = format!("sds of effects of {} models", model.likelihood.name());
            return Err(Refusal::NotCheckable(words));
        }
        let (rows, groups) = (lines.count("rows")?, lines.count("groups")?);
        let root = lines.hash("root")?;
        let factor = lines.triangle("factor-row", d)?;
        lines.theorem("K3")?;
        let (radius, lambda) = (lines.number("radius")?, lines.number("lambda")?);
        let mut points = Vec::new();
        for name in &POINTS[..if between[0] == 0.0 { 2 } else { 3 }] {
            let sd = lines.number(&format!("{name}-sd"))?;
            points.push(Point { sd, mean: lines.numbers(&format!("{name}-mean"), d)? });
        }
        let blocks = Vec::new();
        let mut out = Self { between, model, root, factor, radius, lambda, points, blocks };
        while out.counts()[1] < groups {
            let [hash, count] = lines.words("block")?[..] else {
                return Err(lines.wrong("\"block\" takes a hash and a number of groups"));
            };
            let (hash, count) = (lines.as_hash(hash)?, lines.as_count(count)?);
            let mut block = Block { hash, groups: Vec::new(), ends: Vec::new() };
            for _ in 0..count {
                let mut group = Group { rows: lines.count("group")?, integrals: Vec::new() };
                for _ in 0..out.points.len() {
                    let all = lines.words("integral")?;
                    let (numbers, counts) = all.split_at(all.len().min(5));
                    let (numbers, counts) =
                        (lines.each(numbers, Lines::parse)?, lines.each(counts, Lines::as_count)?);
                    let (&[rad, value, origin, step, height], &[below, above, low, high]) =
                        (&numbers[..], &counts[..])
                    else {
                        return Err(lines.wrong("\"integral\" takes nine values"));
                    };
                    let nodes = Nodes { origin, step, height, below, above, inner: [low, high] };
                    group.integrals.push((value, rad, nodes));
                }
                block.groups.push(group);
            }
            for _ in 1..out.points.len() {
                let gradient = lines.stated("gradient", d)?;
                block.ends.push([gradient, lines.stated("curvature", d * (d + 1) / 2)?]);
            }
            out.blocks.push(block);
        }
        lines.end()?;
        if out.counts() != [rows, groups] {
            return Err(Refusal::NotProved("the blocks have other rows or groups than are stated".into()));
        }
        out.requirements()?;
        Ok(out)
    }
}
