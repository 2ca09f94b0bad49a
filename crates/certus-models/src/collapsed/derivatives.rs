//! The derivatives of F: what every group adds to the gradient and to the Hessian (formulas in the parent).
//!
//! Rows of a group and its nodes are few, so the products are small: rows are copied to a width that leaves no rest in loops, and all of it is
//! compiled for the vector instructions the machine has.

use super::group::{LANES, Nodes};

/// Columns are filled up to a multiple of this.
const WIDTH: usize = 4;

/// Sums over groups.
pub(super) struct Derivatives {
    d: usize,
    width: usize,
    gradient: Vec<f64>,
    error: Vec<f64>,
    /// ∂F/∂θ, ∂²F/∂θ².
    slope: f64,
    bend: f64,
    /// ∂²F/∂β∂θ.
    cross: Vec<f64>,
    /// ∂²F/∂β², `width` × `width`, the whole of it.
    hessian: Vec<f64>,
    /// E w_i φ_i′ of the rows of the last group.
    pub(super) mean: Vec<f64>,
    work: Work,
}

/// Memory reused from group to group.
#[derive(Default)]
struct Work {
    rows: Vec<f64>,
    spread: Vec<f64>,
    root: Vec<f64>,
    square: Vec<f64>,
    matrix: Vec<f64>,
    product: Vec<f64>,
}

impl Derivatives {
    pub(super) fn new(d: usize) -> Self {
        let width = d.next_multiple_of(WIDTH);
        Self {
            d,
            width,
            gradient: vec![0.0; width],
            error: vec![0.0; d],
            slope: 0.0,
            bend: 0.0,
            cross: vec![0.0; width],
            hessian: vec![0.0; width * width],
            mean: Vec::new(),
            work: Work::default(),
        }
    }

    /// Adds a group with the rows `x`, d numbers each.
    pub(super) fn add(&mut self, x: &[f64], nodes: &Nodes) {
        pulp::Arch::new().dispatch(Add { to: self, x, nodes });
    }

    /// Adds the error of a row's mean to that of the gradient.
    pub(super) fn add_error(&mut self, x: &[f64], wrong: f64) {
        self.error.iter_mut().zip(x).for_each(|(e, x)| *e += x.abs() * wrong);
    }

    /// The gradient with θ last, its errors, the Hessian with θ last, one after the other.
    pub(super) fn flat(&self) -> Vec<f64> {
        let d = self.d;
        let mut out = Vec::with_capacity(length(d));
        out.extend(&self.gradient[..d]);
        out.push(self.slope);
        out.extend(&self.error);
        for j in 0..d {
            out.extend(&self.hessian[j * self.width..][..d]);
            out.push(self.cross[j]);
        }
        out.extend(&self.cross[..d]);
        out.push(self.bend);
        out
    }
}

/// The length of [`Derivatives::flat`].
pub(super) fn length(d: usize) -> usize {
    2 * d + 1 + (d + 1) * (d + 1)
}

struct Add<'a> {
    to: &'a mut Derivatives,
    x: &'a [f64],
    nodes: &'a Nodes,
}

impl pulp::NullaryFnOnce for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Add { to, x, nodes } = self;
        let (d, width, count) = (to.d, to.width, nodes.u.len());
        let n = x.len() / d;
        let work = &mut to.work;
        work.root.clear();
        work.root.extend(nodes.p.iter().map(|p| p.sqrt()));
        work.square.clear();
        work.square.extend(nodes.u.iter().zip(&nodes.p).map(|(u, p)| p * u * u));
        let e2: f64 = work.square.iter().sum();
        let e4: f64 = work.square.iter().zip(&nodes.u).map(|(s, u)| s * u * u).sum();
        to.slope += 1.0 - e2;
        to.bend += 2.0 * e2 - (e4 - e2 * e2);
        work.rows.clear();
        work.rows.resize(n * width, 0.0);
        to.mean.clear();
        work.spread.resize(n * count, 0.0);
        work.matrix.clear();
        work.matrix.resize(n * n.min(count), 0.0);
        // slopes less their means, times √p; with `by_rows` the matrix diag(E φ″) − Cov(φ′), else its diagonal alone
        let by_rows = n <= count;
        for i in 0..n {
            let row = &mut work.rows[i * width..][..width];
            row[..d].copy_from_slice(&x[i * d..][..d]);
            let slope = &nodes.slope[i * count..][..count];
            let mean = dot(slope, &nodes.p);
            to.mean.push(mean);
            let bend = dot(&nodes.bend[i * count..][..count], &nodes.p);
            let with_square = dot(slope, &work.square) - mean * e2;
            let spread = &mut work.spread[i * count..][..count];
            for k in 0..count {
                spread[k] = (slope[k] - mean) * work.root[k];
            }
            add(&mut to.gradient, mean, row);
            add(&mut to.cross, with_square, row);
            work.matrix[if by_rows { i * n + i } else { i }] = bend;
        }
        if by_rows {
            for i in 0..n {
                for l in 0..=i {
                    let (a, b) = (&work.spread[i * count..][..count], &work.spread[l * count..][..count]);
                    let c = dot(a, b);
                    work.matrix[i * n + l] -= c;
                    if l < i {
                        work.matrix[l * n + i] -= c;
                    }
                }
            }
            // Xᵀ(M X)
            work.product.resize(width, 0.0);
            for i in 0..n {
                work.product.fill(0.0);
                for l in 0..n {
                    add(&mut work.product, work.matrix[i * n + l], &work.rows[l * width..][..width]);
                }
                outer(&mut to.hessian, &work.rows[i * width..][..width], &work.product);
            }
        } else {
            // E φ″ x xᵀ, less a vector per node
            work.product.clear();
            work.product.resize(count * width, 0.0);
            let mut scaled = vec![0.0; width];
            for i in 0..n {
                let row = &work.rows[i * width..][..width];
                scaled.fill(0.0);
                add(&mut scaled, work.matrix[i], row);
                outer(&mut to.hessian, row, &scaled);
                for k in 0..count {
                    add(&mut work.product[k * width..][..width], work.spread[i * count + k], row);
                }
            }
            for y in work.product.chunks_exact(width) {
                scaled.fill(0.0);
                add(&mut scaled, -1.0, y);
                outer(&mut to.hessian, y, &scaled);
            }
        }
    }
}

/// Σ a b, the length a multiple of [`LANES`].
#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for k in 0..LANES {
            lanes[k] += a[k] * b[k];
        }
    }
    lanes.iter().sum()
}

/// y += c x, the length a multiple of [`WIDTH`].
#[inline(always)]
fn add(y: &mut [f64], c: f64, x: &[f64]) {
    for (y, x) in y.as_chunks_mut::<WIDTH>().0.iter_mut().zip(x.as_chunks::<WIDTH>().0) {
        for k in 0..WIDTH {
            y[k] += c * x[k];
        }
    }
}

/// H += x yᵀ.
#[inline(always)]
fn outer(h: &mut [f64], x: &[f64], y: &[f64]) {
    for (h, x) in h.chunks_exact_mut(x.len()).zip(x) {
        add(h, *x, y);
    }
}
