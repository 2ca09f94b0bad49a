//! The nodes of a group's lattice, line by line, and what is summed over them: weights, moments of u, slopes and
//! curvatures of the rows, covariances of scores (docs/mixed.md, G1).

use certus_likelihood::special::exp;

use super::lattice::{GroupRows, LANES, Lattice};
use super::space::{MOST_EFFECTS, Vector, along, dot};

/// One line of nodes, and memory that is reused from line to line.
#[derive(Default)]
pub(super) struct Line {
    /// e^{ψ(û) − ψ} of every node.
    pub(super) weight: Vec<f64>,
    /// The coordinates of u.
    pub(super) u: [Vec<f64>; MOST_EFFECTS],
    /// w_iφ_i′, row after row.
    pub(super) slope: Vec<f64>,
    /// w_iφ_i″.
    pub(super) curvature: Vec<f64>,
    y: Vec<f64>,
    t: Vec<f64>,
    s: Vec<f64>,
}

impl GroupRows<'_> {
    /// Visits the lines of a lattice, the last axis along them, but for nodes that may be left out.
    pub(super) fn walk(&self, lattice: &Lattice, line: &mut Line, mut visit: impl FnMut(&Line)) {
        let (k, n) = (lattice.k, self.t.len());
        if k == 0 {
            self.fill(lattice, line, lattice.centre, [0, LANES as i64 - 1]);
            line.weight[1..].fill(0.0);
            return visit(line);
        }
        let last = k - 1;
        let (r, h) = (lattice.r[last], lattice.axes[last].step);
        let count = |j: usize| (lattice.ends[j][0] + lattice.ends[j][1] + 1) as usize;
        let place = |j: usize, at: usize| (at as i64 - lattice.ends[j][0]) as f64 * lattice.axes[j].step;
        line.s.clear();
        line.s.extend(self.s.iter().map(|s| dot(*s, r)));
        debug_assert_eq!(line.s.len(), n);
        let outer = [if k > 1 { count(0) } else { 1 }, if k > 2 { count(1) } else { 1 }];
        let mut first = 0.0;
        for a in 0..outer[0] {
            let mut guess = first;
            for b in 0..outer[1] {
                let mut base = lattice.centre;
                if k > 1 {
                    base = along(base, place(0, a), lattice.r[0]);
                }
                if k > 2 {
                    base = along(base, place(1, b), lattice.r[1]);
                }
                let window = self.window(lattice, base, r, &mut guess);
                if b == 0 {
                    first = guess;
                }
                let Some([low, high]) = window else { continue };
                let from = ((low / h).ceil() as i64).max(-lattice.ends[last][0]);
                let to = ((high / h).floor() as i64).min(lattice.ends[last][1]);
                if from <= to {
                    self.fill(lattice, line, base, [from, to]);
                    visit(line);
                }
            }
        }
    }

    /// One line of nodes, those from one step to another, and some more that make their number a multiple of [`LANES`].
    fn fill(&self, lattice: &Lattice, line: &mut Line, base: Vector, [from, to]: [i64; 2]) {
        let n = self.t.len();
        let axis = lattice.k.saturating_sub(1);
        let (r, h) = if lattice.k == 0 {
            ([0.0; MOST_EFFECTS], 0.0)
        } else {
            (lattice.r[axis], lattice.axes[axis].step)
        };
        let wide = ((to - from + 1) as usize).next_multiple_of(LANES);
        let Line { weight, u, slope, curvature, y, t, s } = line;
        y.clear();
        y.extend((0..wide).map(|c| (from + c as i64) as f64 * h));
        slope.resize(n * wide, 0.0);
        curvature.resize(n * wide, 0.0);
        weight.resize(wide, 0.0);
        u.iter_mut().for_each(|u| u.resize(wide, 0.0));
        t.clear();
        t.extend((0..n).map(|i| self.t[i] + dot(self.s[i], base)));
        if lattice.k == 0 {
            s.clear();
            s.resize(n, 0.0);
        }
        for c in 0..wide {
            let at = along(base, y[c], r);
            weight[c] = 0.5 * dot(at, at);
            (0..MOST_EFFECTS).for_each(|j| u[j][c] = at[j]);
        }
        self.likelihood.lines(t, s, self.data, self.weight, y, weight, slope, curvature);
        pulp::Arch::new().dispatch(Weigh { psi: weight, least: lattice.least });
    }

    /// w_iφ_i′ at û.
    pub(super) fn slopes_at(&self, u: Vector, out: &mut Vec<f64>) {
        let n = self.t.len();
        let t: Vec<f64> = (0..n).map(|i| self.t[i] + dot(self.s[i], u)).collect();
        let mut curvature = vec![0.0; n];
        out.resize(n, 0.0);
        self.likelihood.derivatives(&t, self.data, self.weight, out, &mut curvature);
    }
}

/// ψ ← e^{least − ψ}, vectorised.
struct Weigh<'a> {
    psi: &'a mut [f64],
    least: f64,
}

impl pulp::NullaryFnOnce for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.psi.iter_mut().for_each(|p| *p = exp(self.least - *p));
    }
}

/// What scores a group has, by node: those of the coefficients, or of the rows if these are fewer, then those of the
/// directions (i, j) of the covariance matrix (docs/mixed.md, G1).
pub(super) struct Scores<'a> {
    /// x of the group's rows.
    pub(super) x: &'a [f64],
    pub(super) p: usize,
    /// Wᵀz of the rows: s first, then what is outside of the range of Σ.
    pub(super) full: &'a [Vector],
    pub(super) rank: usize,
    /// k − rank.
    pub(super) outside: usize,
    pub(super) directions: &'a [(usize, usize)],
    /// Whether u itself follows, for its covariances with the others.
    pub(super) with_u: bool,
}

/// Sums over the nodes of a group, divided by the sum of the weights.
#[derive(Default)]
pub(super) struct Moments {
    /// Σ e^{ψ(û) − ψ}.
    pub(super) sum: f64,
    /// E u and E uuᵀ.
    pub(super) u: Vector,
    pub(super) uu: [Vector; MOST_EFFECTS],
    /// Nodes visited.
    pub(super) nodes: f64,
    /// The largest |u_j| of a node.
    pub(super) farthest: f64,
    /// E w_iφ_i′ and E w_iφ_i″ of every row.
    pub(super) slope: Vec<f64>,
    pub(super) curvature: Vec<f64>,
    /// E w_iφ_i″u_j and E w_iφ_i″u_ju_l, 3 and 9 per row, where there are directions outside of the range.
    pub(super) first: Vec<f64>,
    pub(super) second: Vec<f64>,
    /// E g̃g̃ᵀ, 9 numbers, g̃ = Σ w_iφ_i′z̃_i outside of the range.
    pub(super) outer: Vec<f64>,
    /// Means of the scores and their covariance matrix.
    pub(super) mean: Vec<f64>,
    pub(super) covariance: Vec<f64>,
    /// Memory: the scores at û, the scores of a line times the roots of the weights, the roots.
    reference: Vec<f64>,
    columns: Vec<f64>,
    root: Vec<f64>,
    outside: [Vec<f64>; MOST_EFFECTS],
    weighted: [Vec<f64>; MOST_EFFECTS],
    squares: Vec<f64>,
}

impl Scores<'_> {
    /// Coefficients' columns: as many as coefficients, or as rows.
    pub(super) fn width(&self) -> usize {
        self.p.min(self.full.len())
    }

    pub(super) fn by_rows(&self) -> bool {
        self.full.len() < self.p
    }

    /// The scores at one point.
    fn at(&self, slope: &[f64], u: Vector, out: &mut Vec<f64>) {
        out.clear();
        if self.by_rows() {
            out.extend(slope);
        } else {
            let each = |j: usize| (0..slope.len()).map(|i| self.x[i * self.p + j] * slope[i]).sum::<f64>();
            out.extend((0..self.p).map(each));
        }
        for &(i, j) in self.directions {
            out.push(if i < self.rank {
                scale(i, j) * u[i] * u[j]
            } else {
                let g: f64 = (0..slope.len()).map(|row| slope[row] * self.full[row][i]).sum();
                std::f64::consts::FRAC_1_SQRT_2 * g * u[j]
            });
        }
        out.extend(&u[..if self.with_u { self.rank } else { 0 }]);
    }
}

/// −½uᵀBu = scale·u_iu_j for the basis matrix B of entries (i, j) and (j, i).
fn scale(i: usize, j: usize) -> f64 {
    if i == j { -0.5 } else { -std::f64::consts::FRAC_1_SQRT_2 }
}

impl Moments {
    /// Fills all of it; without scores, what only they need is left out.
    pub(super) fn of(
        &mut self,
        rows: &GroupRows<'_>,
        lattice: &Lattice,
        line: &mut Line,
        scores: Option<&Scores<'_>>,
    ) {
        let n = rows.t.len();
        (self.sum, self.u, self.uu) = (0.0, [0.0; 3], [[0.0; 3]; 3]);
        (self.farthest, self.nodes) = (0.0, 0.0);
        refill(&mut self.slope, n);
        refill(&mut self.curvature, n);
        if let Some(scores) = scores {
            let mut at = Vec::new();
            rows.slopes_at(lattice.centre, &mut at);
            scores.at(&at, lattice.centre, &mut self.reference);
            let m = self.reference.len();
            refill(&mut self.mean, m);
            refill(&mut self.covariance, m * m);
            let outside = if scores.outside > 0 { n } else { 0 };
            refill(&mut self.first, 3 * outside);
            refill(&mut self.second, 9 * outside);
            refill(&mut self.outer, 9);
        }
        rows.walk(lattice, line, |line| {
            pulp::Arch::new().dispatch(Accumulate { to: self, line, scores, n, k: lattice.k });
        });
        let part = 1.0 / self.sum;
        let all = [&mut self.slope, &mut self.curvature, &mut self.first, &mut self.second, &mut self.outer];
        all.into_iter()
            .chain([&mut self.mean, &mut self.covariance])
            .for_each(|v| v.iter_mut().for_each(|x| *x *= part));
        self.u.iter_mut().chain(self.uu.iter_mut().flatten()).for_each(|x| *x *= part);
        if scores.is_some() {
            let m = self.mean.len();
            for a in 0..m {
                for b in 0..=a {
                    let c = self.covariance[a * m + b] - self.mean[a] * self.mean[b];
                    (self.covariance[a * m + b], self.covariance[b * m + a]) = (c, c);
                }
            }
            self.mean.iter_mut().zip(&self.reference).for_each(|(m, r)| *m += r);
        }
    }
}

fn refill(v: &mut Vec<f64>, n: usize) {
    v.clear();
    v.resize(n, 0.0);
}

/// Adds a line to the moments, vectorised.
struct Accumulate<'a, 'b> {
    to: &'a mut Moments,
    line: &'a Line,
    scores: Option<&'a Scores<'b>>,
    n: usize,
    k: usize,
}

impl pulp::NullaryFnOnce for Accumulate<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Accumulate { to, line, scores, n, k } = self;
        let Line { weight, u, slope, curvature, .. } = line;
        let wide = weight.len();
        let weight = &weight[..wide];
        to.sum += total(weight);
        to.nodes += wide as f64;
        for j in 0..k {
            let uj = &u[j][..wide];
            times(weight, uj, &mut to.weighted[j]);
            to.farthest = to.farthest.max(uj[0].abs()).max(uj[wide - 1].abs());
        }
        for j in 0..k {
            to.u[j] += total(&to.weighted[j]);
            for l in 0..=j {
                let both = product(&to.weighted[j], &u[l][..wide]);
                to.uu[j][l] += both;
                if l < j {
                    to.uu[l][j] += both;
                }
            }
        }
        for i in 0..n {
            to.slope[i] += product(weight, &slope[i * wide..][..wide]);
            to.curvature[i] += product(weight, &curvature[i * wide..][..wide]);
        }
        let Some(scores) = scores else { return };
        let m = to.mean.len();
        to.root.resize(wide, 0.0);
        to.columns.resize(m * wide, 0.0);
        (0..wide).for_each(|c| to.root[c] = weight[c].sqrt());
        let root = &to.root[..wide];
        if scores.outside > 0 {
            for l in scores.rank..scores.rank + scores.outside {
                let g = &mut to.outside[l];
                g.clear();
                g.resize(wide, 0.0);
                for i in 0..n {
                    let (z, own) = (scores.full[i][l], &slope[i * wide..][..wide]);
                    (0..wide).for_each(|c| g[c] += z * own[c]);
                }
            }
            for j in 0..k {
                for i in 0..n {
                    to.first[3 * i + j] += product(&to.weighted[j], &curvature[i * wide..][..wide]);
                }
                for l in 0..k {
                    times(&to.weighted[j], &u[l][..wide], &mut to.squares);
                    for i in 0..n {
                        to.second[9 * i + 3 * j + l] += product(&to.squares, &curvature[i * wide..][..wide]);
                    }
                }
            }
            for a in scores.rank..scores.rank + scores.outside {
                times(weight, &to.outside[a], &mut to.squares);
                for b in scores.rank..scores.rank + scores.outside {
                    to.outer[3 * a + b] += product(&to.squares, &to.outside[b]);
                }
            }
        }
        let width = scores.width();
        for j in 0..width {
            let column = &mut to.columns[j * wide..][..wide];
            if scores.by_rows() {
                column.copy_from_slice(&slope[j * wide..][..wide]);
            } else {
                column.fill(0.0);
                for i in 0..n {
                    let (x, own) = (scores.x[i * scores.p + j], &slope[i * wide..][..wide]);
                    (0..wide).for_each(|c| column[c] += x * own[c]);
                }
            }
        }
        for (at, &(i, j)) in scores.directions.iter().enumerate() {
            let column = &mut to.columns[(width + at) * wide..][..wide];
            let uj = &u[j][..wide];
            if i < scores.rank {
                let (by, ui) = (scale(i, j), &u[i][..wide]);
                (0..wide).for_each(|c| column[c] = by * ui[c] * uj[c]);
            } else {
                let (by, g) = (std::f64::consts::FRAC_1_SQRT_2, &to.outside[i][..wide]);
                (0..wide).for_each(|c| column[c] = by * g[c] * uj[c]);
            }
        }
        for j in 0..if scores.with_u { scores.rank } else { 0 } {
            let at = width + scores.directions.len() + j;
            to.columns[at * wide..][..wide].copy_from_slice(&u[j][..wide]);
        }
        for a in 0..m {
            let r = to.reference[a];
            let column = &mut to.columns[a * wide..][..wide];
            (0..wide).for_each(|c| column[c] = (column[c] - r) * root[c]);
        }
        for a in 0..m {
            let left = &to.columns[a * wide..][..wide];
            to.mean[a] += product(left, root);
            for b in 0..=a {
                to.covariance[a * m + b] += product(left, &to.columns[b * wide..][..wide]);
            }
        }
    }
}

/// Σ x, in [`LANES`] sums; the length is a multiple of it.
#[inline(always)]
fn total(x: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    for x in x.as_chunks::<LANES>().0 {
        (0..LANES).for_each(|c| lanes[c] += x[c]);
    }
    lanes.iter().sum()
}

/// Σ x y, in [`LANES`] sums.
#[inline(always)]
fn product(x: &[f64], y: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
        (0..LANES).for_each(|c| lanes[c] += x[c] * y[c]);
    }
    lanes.iter().sum()
}

/// out ← x y, elementwise.
#[inline(always)]
fn times(x: &[f64], y: &[f64], out: &mut Vec<f64>) {
    out.resize(x.len(), 0.0);
    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
        *out = x * y;
    }
}

/// Σ f(c) over a number of nodes that is a multiple of [`LANES`], in as many sums.
#[inline(always)]
pub(super) fn sum(count: usize, f: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let mut from = 0;
    while from + LANES <= count {
        for (c, lane) in lanes.iter_mut().enumerate() {
            *lane += f(from + c);
        }
        from += LANES;
    }
    lanes.iter().sum()
}
