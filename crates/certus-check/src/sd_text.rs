//! The text of a certificate about the sd of an effect (docs/certificate-format.md, "The sd of an effect").

use crate::certificate::{HEADER, Lines, Model, Precision, Refusal, triangle};
use crate::group::Nodes;
use crate::moments::Likelihood;
use crate::sd::{Block, Group, POINTS, Point, SdCertificate, Stated};
use crate::sha256::hex;
use crate::write::{model, push};

const CLAIM: &str = "sd-interval";

/// True if a certificate makes this claim.
pub fn is_about_sd(text: &str) -> bool {
    Lines::begin(text).is_ok_and(|(_, claim)| claim == CLAIM)
}

impl SdCertificate {
    /// Reads a certificate with this claim.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let (mut lines, _) = Lines::begin(text)?;
        let between = lines.numbers("sd-between", 2)?;
        let between = [between[0], between[1]];
        let Model { likelihood, intercept, columns, prior_mean, prior_precision } = Model::read(&mut lines)?;
        if !matches!(likelihood, Likelihood::Logistic | Likelihood::Binomial) {
            return Err(Refusal::NotCheckable(format!("sds of effects of {} models", likelihood.name())));
        }
        let Precision::Diagonal(prior_diagonal) = prior_precision else {
            return Err(Refusal::NotCheckable("sds of effects with a prior that is not diagonal".into()));
        };
        let d = prior_mean.len();
        let (rows, groups) = (lines.count("rows")?, lines.count("groups")?);
        let root = lines.hash("root")?;
        let factor = lines.triangle("factor-row", d)?;
        match lines.word("theorem")? {
            "K3" => {}
            other => return Err(Refusal::NotCheckable(format!("the theorem \"{other}\""))),
        }
        let (radius, lambda) = (lines.number("radius")?, lines.number("lambda")?);
        let mut points = Vec::new();
        for name in &POINTS[..if between[0] == 0.0 { 2 } else { 3 }] {
            let sd = lines.number(&format!("{name}-sd"))?;
            points.push(Point { sd, mean: lines.numbers(&format!("{name}-mean"), d)? });
        }
        let mut out = Self {
            between,
            likelihood,
            intercept,
            columns,
            prior_mean,
            prior_diagonal,
            root,
            factor,
            radius,
            lambda,
            points,
            blocks: Vec::new(),
        };
        while out.counts_so_far() < groups {
            let [hash, count] = lines.words("block")?[..] else {
                return Err(lines.wrong("\"block\" takes a hash and a number of groups"));
            };
            let (hash, count) = (lines.as_hash(hash)?, lines.as_count(count)?);
            let mut block = Block { hash, groups: Vec::new(), ends: Vec::new() };
            for _ in 0..count {
                let mut group = Group { rows: lines.count("group")?, integrals: Vec::new() };
                for _ in 0..out.points.len() {
                    let all = lines.words("integral")?;
                    let [rad, value, origin, step, height, below, above, least, most] = all[..] else {
                        return Err(lines.wrong("\"integral\" takes nine values"));
                    };
                    let [rad, value, origin, step, height] = [rad, value, origin, step, height]
                        .map(|word| lines.parse(word))
                        .into_iter()
                        .collect::<Result<Vec<f64>, _>>()?[..]
                    else {
                        return Err(lines.wrong("five numbers are expected"));
                    };
                    let counts = [below, above, least, most].map(|word| lines.as_count(word));
                    let [below, above, least, most] = counts;
                    let inner = [least?, most?];
                    let nodes = Nodes { origin, step, height, below: below?, above: above?, inner };
                    group.integrals.push((value, rad, nodes));
                }
                block.groups.push(group);
            }
            for _ in 1..out.points.len() {
                let mut stated = |key: &str, count: usize| {
                    let mut all = lines.numbers(key, 1 + count)?;
                    let parts = all.split_off(1);
                    Ok(Stated { parts, rad: all[0] })
                };
                block.ends.push([stated("gradient", d)?, stated("curvature", d * (d + 1) / 2)?]);
            }
            out.blocks.push(block);
        }
        lines.end()?;
        if out.counts() != [rows, groups] {
            return Err(Refusal::NotProved("the blocks have other rows or groups than are stated".into()));
        }
        Ok(out)
    }

    fn counts_so_far(&self) -> u64 {
        self.blocks.iter().map(|block| block.groups.len() as u64).sum()
    }

    /// The text.
    pub fn write(&self) -> String {
        let mut out = format!("{HEADER} 1\nclaim {CLAIM}\n");
        let mut line = |key: &str, numbers: &[f64]| push(&mut out, key, numbers);
        line("sd-between", &self.between);
        let Self { likelihood, intercept, columns, prior_mean, .. } = self;
        let precision = Precision::Diagonal(self.prior_diagonal.clone());
        model(&mut line, *likelihood, *intercept, columns, prior_mean, &precision);
        let [rows, groups] = self.counts();
        line(&format!("rows {rows}\ngroups {groups}\nroot {}", hex(&self.root)), &[]);
        triangle(&self.factor).for_each(|row| line("factor-row", row));
        line("theorem K3", &[]);
        line("radius", &[self.radius]);
        line("lambda", &[self.lambda]);
        for (name, point) in POINTS.iter().zip(&self.points) {
            line(&format!("{name}-sd"), &[point.sd]);
            line(&format!("{name}-mean"), &point.mean);
        }
        for block in &self.blocks {
            line(&format!("block {} {}", hex(&block.hash), block.groups.len()), &[]);
            for group in &block.groups {
                line(&format!("group {}", group.rows), &[]);
                for (value, rad, nodes) in &group.integrals {
                    let Nodes { origin, step, height, below, above, inner } = nodes;
                    let counts = format!("{below} {above} {} {}", inner[0], inner[1]);
                    let numbers = format!("{rad:?} {value:?} {origin:?} {step:?} {height:?}");
                    line(&format!("integral {numbers} {counts}"), &[]);
                }
            }
            for stated in block.ends.iter() {
                for (key, Stated { parts, rad }) in ["gradient", "curvature"].iter().zip(stated) {
                    line(&format!("{key} {rad:?}"), parts);
                }
            }
        }
        line("end", &[]);
        out
    }
}
