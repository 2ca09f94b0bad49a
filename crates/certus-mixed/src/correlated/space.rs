//! Vectors and matrices of the at most three effects of a group, and convex functions of them: coordinates that are not
//! there are 0, and 1 on the diagonals of matrices.

/// The largest number of effects per level.
pub(super) const MOST_EFFECTS: usize = 3;
/// Newton steps, at most.
const STEPS: usize = 100;

pub(super) type Vector = [f64; MOST_EFFECTS];
/// By columns; symmetric or triangular.
pub(super) type Matrix = [Vector; MOST_EFFECTS];

pub(super) const IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

pub(super) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// a + c b.
pub(super) fn along(a: Vector, c: f64, b: Vector) -> Vector {
    [a[0] + c * b[0], a[1] + c * b[1], a[2] + c * b[2]]
}

/// The lower Cholesky factor; pivots are kept positive.
pub(super) fn cholesky(a: &Matrix) -> Matrix {
    let mut l = [[0.0; MOST_EFFECTS]; MOST_EFFECTS];
    for j in 0..MOST_EFFECTS {
        let square: f64 = (0..j).map(|c| l[c][j] * l[c][j]).sum();
        // where rounding leaves nothing: the matrices here are not below the identity
        l[j][j] = (a[j][j] - square).max(f64::EPSILON * a[j][j]).sqrt();
        for i in j + 1..MOST_EFFECTS {
            let sum: f64 = (0..j).map(|c| l[c][i] * l[c][j]).sum();
            l[j][i] = (a[j][i] - sum) / l[j][j];
        }
    }
    l
}

/// L⁻¹x.
pub(super) fn forward(l: &Matrix, mut x: Vector) -> Vector {
    for i in 0..MOST_EFFECTS {
        let sum: f64 = (0..i).map(|j| l[j][i] * x[j]).sum();
        x[i] = (x[i] - sum) / l[i][i];
    }
    x
}

/// L⁻ᵀx.
pub(super) fn backward(l: &Matrix, mut x: Vector) -> Vector {
    for i in (0..MOST_EFFECTS).rev() {
        let sum: f64 = (i + 1..MOST_EFFECTS).map(|j| l[i][j] * x[j]).sum();
        x[i] = (x[i] - sum) / l[i][i];
    }
    x
}

/// vᵀA w.
pub(super) fn form(a: &Matrix, v: Vector, w: Vector) -> f64 {
    (0..MOST_EFFECTS).map(|j| w[j] * dot(a[j], v)).sum()
}

/// A convex function at a point: value, gradient, Hessian.
#[derive(Clone, Copy, Debug)]
pub(super) struct Potential {
    pub(super) value: f64,
    pub(super) gradient: Vector,
    pub(super) hessian: Matrix,
}

impl Potential {
    /// |u|²/2.
    pub(super) fn square(u: Vector) -> Self {
        Self { value: 0.5 * dot(u, u), gradient: u, hessian: IDENTITY }
    }

    /// Adds value, slope s and curvature s sᵀ of a function of s·u.
    pub(super) fn add(&mut self, s: Vector, value: f64, slope: f64, curvature: f64) {
        self.value += value;
        for j in 0..MOST_EFFECTS {
            self.gradient[j] += s[j] * slope;
            for i in 0..MOST_EFFECTS {
                self.hessian[j][i] += s[i] * s[j] * curvature;
            }
        }
    }

    /// The same less c|u − û|²/2.
    pub(super) fn less(mut self, c: f64, from: Vector, u: Vector) -> Self {
        let away = along(u, -1.0, from);
        self.value -= 0.5 * c * dot(away, away);
        self.gradient = along(self.gradient, -c, away);
        (0..MOST_EFFECTS).for_each(|j| self.hessian[j][j] -= c);
        self
    }

    /// log det of the Hessian.
    pub(super) fn log_det(&self) -> f64 {
        let l = cholesky(&self.hessian);
        (0..MOST_EFFECTS).map(|j| 2.0 * l[j][j].ln()).sum()
    }
}

/// The minimum of a convex function over start + the span of `directions`, nearly: Newton's method with halved steps
/// until half the squared decrement is below `enough`. Directions that are 0 are not used.
pub(super) fn minimum(
    start: Vector,
    directions: &Matrix,
    enough: f64,
    at: impl Fn(Vector) -> Option<Potential>,
) -> Option<(Vector, Potential)> {
    let mut u = start;
    let mut here = at(u)?;
    for _ in 0..STEPS {
        let mut own = IDENTITY;
        let mut slope = [0.0; MOST_EFFECTS];
        let used = |j: usize| directions[j] != [0.0; MOST_EFFECTS];
        for j in (0..MOST_EFFECTS).filter(|&j| used(j)) {
            slope[j] = dot(here.gradient, directions[j]);
            for i in (0..MOST_EFFECTS).filter(|&i| used(i)) {
                own[j][i] = form(&here.hessian, directions[i], directions[j]);
            }
        }
        let l = cholesky(&own);
        let newton = backward(&l, forward(&l, slope));
        let promised = dot(newton, slope);
        if 0.5 * promised <= enough || promised.is_nan() {
            break;
        }
        let step = (0..MOST_EFFECTS).fold([0.0; MOST_EFFECTS], |sum, j| along(sum, newton[j], directions[j]));
        let mut scale = 1.0;
        while scale > 1e-9 {
            let trial = along(u, -scale, step);
            if let Some(there) = at(trial).filter(|t| t.value <= here.value - 1e-4 * scale * promised) {
                (u, here) = (trial, there);
                break;
            }
            scale *= 0.5;
        }
        if scale <= 1e-9 {
            break;
        }
    }
    Some((u, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parabola is minimised in one step, on a line, on a plane and in space.
    #[test]
    fn minima_of_parabolas() {
        let a = [[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]];
        let at = |u: Vector| {
            let gradient = [0, 1, 2].map(|j| dot(a[j], u) - 1.0);
            let value = 0.5 * form(&a, u, u) - u[0] - u[1] - u[2];
            Some(Potential { value, gradient, hessian: a })
        };
        let (u, here) = minimum([0.3, -2.0, 5.0], &IDENTITY, 1e-20, at).expect("finite");
        assert!(dot(here.gradient, here.gradient) < 1e-20);
        let l = cholesky(&a);
        let solved = backward(&l, forward(&l, [1.0; 3]));
        assert!((0..3).all(|j| (u[j] - solved[j]).abs() < 1e-12));
        let plane = [[1.0, 0.0, 0.0], [0.0; 3], [0.0, 1.0, 1.0]];
        let (u, here) = minimum([0.0, 1.0, 0.0], &plane, 1e-20, at).expect("finite");
        assert!((u[1] - u[2] - 1.0).abs() < 1e-12);
        assert!(here.gradient[0].abs() < 1e-9 && (here.gradient[1] + here.gradient[2]).abs() < 1e-9);
        // det a = 4(6 − 0.04) − (2 + 0.1) + 0.5(−0.2 − 1.5)
        let det: f64 = 4.0 * 5.96 - 2.1 - 0.85;
        assert!((here.log_det() - det.ln()).abs() < 1e-12);
    }
}
