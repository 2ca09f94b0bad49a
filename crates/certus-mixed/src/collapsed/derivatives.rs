//! The derivatives of F: what every group adds to the gradient and to the Hessian (formulas in the parent).
//!
//! Rows of a group and its nodes are few, so the products are small: rows are copied to a width that leaves no rest in
//! loops, and all of it is compiled for the vector instructions the machine has.

use pulp::Simd;

use super::nodes::Nodes;

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
    curvature: f64,
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
            curvature: 0.0,
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
        out.push(self.curvature);
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

impl pulp::WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Add { to, x, nodes } = self;
        let (d, width, count) = (to.d, to.width, nodes.u.len());
        let n = x.len() / d;
        let work = &mut to.work;
        work.root.resize(count, 0.0);
        work.square.resize(count, 0.0);
        for k in 0..count {
            work.root[k] = nodes.p[k].sqrt();
            work.square[k] = nodes.p[k] * nodes.u[k] * nodes.u[k];
        }
        let e2: f64 = work.square.iter().sum();
        let e4: f64 = work.square.iter().zip(&nodes.u).map(|(s, u)| s * u * u).sum();
        to.slope += 1.0 - e2;
        to.curvature += 2.0 * e2 - (e4 - e2 * e2);
        work.rows.resize(n * width, 0.0);
        work.spread.resize(n * count, 0.0);
        to.mean.clear();
        // the matrix diag(E φ″) − Cov(φ′) if there are fewer rows than nodes, else its diagonal alone
        let by_rows = n <= count;
        work.matrix.resize(n * n.min(count), 0.0);
        for i in 0..n {
            let row = &mut work.rows[i * width..][..width];
            row[..d].copy_from_slice(&x[i * d..][..d]);
            row[d..].fill(0.0);
            let slope = &nodes.slope[i * count..][..count];
            let [mean] = dots::<S, 1>(simd, &nodes.p, slope);
            to.mean.push(mean);
            let [curvature] = dots::<S, 1>(simd, &nodes.p, &nodes.curvature[i * count..][..count]);
            let [with_square] = dots::<S, 1>(simd, &work.square, slope);
            let with_square = with_square - mean * e2;
            // slopes less their means, times √p
            let (spread, root) = (&mut work.spread[i * count..][..count], &work.root[..count]);
            for k in 0..count {
                spread[k] = (slope[k] - mean) * root[k];
            }
            add(simd, &mut to.gradient, mean, row);
            add(simd, &mut to.cross, with_square, row);
            if by_rows {
                let own = &work.spread[i * count..][..count];
                let mut l = 0;
                while l + 4 <= i + 1 {
                    let four = dots::<S, 4>(simd, own, &work.spread[l * count..][..4 * count]);
                    for (k, c) in four.iter().enumerate() {
                        (work.matrix[i * n + l + k], work.matrix[(l + k) * n + i]) = (-c, -c);
                    }
                    l += 4;
                }
                for l in l..=i {
                    let [c] = dots::<S, 1>(simd, own, &work.spread[l * count..][..count]);
                    (work.matrix[i * n + l], work.matrix[l * n + i]) = (-c, -c);
                }
                work.matrix[i * n + i] += curvature;
            } else {
                work.matrix[i] = curvature;
            }
        }
        let (rows, product) = (&work.rows[..n * width], &mut work.product);
        if by_rows {
            product.resize(n * width, 0.0);
            // P = M X, then H += Xᵀ P
            times(simd, width, n, |i, l| work.matrix[i * n + l], rows, &mut product[..n * width], false);
            times(simd, width, n, |j, i| rows[i * width + j], &product[..n * width], &mut to.hessian, true);
        } else {
            // P = D X, H += Xᵀ P; then a vector per node, Y = Sᵀ X, H −= Yᵀ Y
            product.resize(n.max(count) * width, 0.0);
            for i in 0..n {
                for j in 0..width {
                    product[i * width + j] = work.matrix[i] * rows[i * width + j];
                }
            }
            times(simd, width, n, |j, i| rows[i * width + j], &product[..n * width], &mut to.hessian, true);
            let spread = &work.spread;
            let y = &mut product[..count * width];
            times(simd, width, n, |k, i| spread[i * count + k], rows, y, false);
            let y = &product[..count * width];
            times(simd, width, count, |j, k| -y[k * width + j], y, &mut to.hessian, true);
        }
    }
}

/// Y = A X, or Y += A X, with `inner` rows of X, all of `width` columns: as many columns at a time as there are
/// registers for.
#[inline(always)]
fn times<S: Simd>(
    simd: S,
    width: usize,
    inner: usize,
    a: impl Fn(usize, usize) -> f64,
    x: &[f64],
    y: &mut [f64],
    add: bool,
) {
    let mut from = 0;
    while from < width {
        let left = width - from;
        from += if left >= 4 * S::F64_LANES {
            columns::<S, 4>(simd, width, from, inner, &a, x, y, add)
        } else if left >= 3 * S::F64_LANES {
            columns::<S, 3>(simd, width, from, inner, &a, x, y, add)
        } else if left >= 2 * S::F64_LANES {
            columns::<S, 2>(simd, width, from, inner, &a, x, y, add)
        } else if left >= S::F64_LANES {
            columns::<S, 1>(simd, width, from, inner, &a, x, y, add)
        } else {
            rest(simd, width, from, inner, &a, x, y, add);
            left
        };
    }
}

/// [`times`] for V vectors of columns; says how many columns these are.
#[inline(always)]
fn columns<S: Simd, const V: usize>(
    simd: S,
    width: usize,
    from: usize,
    inner: usize,
    a: &impl Fn(usize, usize) -> f64,
    x: &[f64],
    y: &mut [f64],
    add: bool,
) -> usize {
    let wide = V * S::F64_LANES;
    for (i, y) in y.chunks_exact_mut(width).enumerate() {
        let (y, _) = S::as_mut_simd_f64s(&mut y[from..from + wide]);
        let mut sum = [simd.splat_f64s(0.0); V];
        for (l, x) in x[..inner * width].chunks_exact(width).enumerate() {
            let (x, _) = S::as_simd_f64s(&x[from..from + wide]);
            let factor = simd.splat_f64s(a(i, l));
            for v in 0..V {
                sum[v] = simd.mul_add_e_f64s(factor, x[v], sum[v]);
            }
        }
        for v in 0..V {
            y[v] = if add { simd.add_f64s(y[v], sum[v]) } else { sum[v] };
        }
    }
    wide
}

/// [`times`] for the last columns, fewer than a vector has.
#[inline(always)]
fn rest<S: Simd>(
    simd: S,
    width: usize,
    from: usize,
    inner: usize,
    a: &impl Fn(usize, usize) -> f64,
    x: &[f64],
    y: &mut [f64],
    add: bool,
) {
    for (i, y) in y.chunks_exact_mut(width).enumerate() {
        let y = &mut y[from..];
        let mut sum = simd.splat_f64s(0.0);
        for (l, x) in x[..inner * width].chunks_exact(width).enumerate() {
            sum = simd.mul_add_e_f64s(simd.splat_f64s(a(i, l)), simd.partial_load_f64s(&x[from..]), sum);
        }
        let before = simd.partial_load_f64s(y);
        simd.partial_store_f64s(y, if add { simd.add_f64s(before, sum) } else { sum });
    }
}

/// Σ a b for R rows b, one after the other; the length of a is a multiple of [`super::nodes::LANES`].
#[inline(always)]
fn dots<S: Simd, const R: usize>(simd: S, a: &[f64], b: &[f64]) -> [f64; R] {
    let (a, _) = S::as_simd_f64s(a);
    let (b, _) = S::as_simd_f64s(b);
    let n = a.len();
    let rows: [&[S::f64s]; R] = std::array::from_fn(|r| &b[r * n..][..n]);
    let mut sums = [simd.splat_f64s(0.0); R];
    for k in 0..n {
        for r in 0..R {
            sums[r] = simd.mul_add_e_f64s(a[k], rows[r][k], sums[r]);
        }
    }
    sums.map(|sum| simd.reduce_sum_f64s(sum))
}

/// y += c x.
#[inline(always)]
fn add<S: Simd>(simd: S, y: &mut [f64], c: f64, x: &[f64]) {
    let ((y, last_y), (x, last_x)) = (S::as_mut_simd_f64s(y), S::as_simd_f64s(x));
    let factor = simd.splat_f64s(c);
    for (y, x) in y.iter_mut().zip(x) {
        *y = simd.mul_add_e_f64s(factor, *x, *y);
    }
    for (y, x) in last_y.iter_mut().zip(last_x) {
        *y += c * x;
    }
}
