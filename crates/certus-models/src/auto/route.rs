//! Which route: a fixed formula of the size of the problem, with no clock in it.

use super::Method;

/// The numbers that choose the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// N.
    pub rows: usize,
    /// d.
    pub dim: usize,
    /// Numbers of one factor: d² if it is dense, those of the pattern otherwise.
    pub stored: usize,
    /// Entries of a factor that one row of data touches: d, or the widest path of the pattern.
    pub widest: usize,
    /// Blocks of the pattern; 0 if the factor is dense.
    pub groups: usize,
}

/// The most work of the exact route, in multiplications and additions: about a quarter of an hour of one core at 10¹⁰ a
/// second.
///
/// Below, Newton's method is the better one however long a stochastic run would take: it ends at the optimum to
/// rounding, and a stochastic run needs certificates too, each of which costs about an eighth of the exact route.
/// Beyond, the first of those certificates comes much earlier than the exact optimum.
pub const MOST_WORK: f64 = (1_u64 << 43) as f64;

/// The most memory of the exact route, in bytes, beside the data themselves.
pub const MOST_MEMORY: f64 = (6_u64 << 30) as f64;

/// Numbers of A C that are kept between products, as in the solver.
const KEPT: f64 = crate::exact::KEEP as f64;

/// What was chosen and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// [`Method::Exact`] or [`Method::Stochastic`].
    pub method: Method,
    /// One line.
    pub why: String,
}

impl Size {
    /// Multiplications and additions of the exact route: with W = 2 N k² those of one product A C (k = `widest`), a run
    /// is some 10 Hessians (W/2 each), 6 gradients (W), 30 Hessian-vector products (3W/2), 12 values (W/2) and 2
    /// certificates (10 W), 82 W in all; 200 k products of the size of a factor; and 20 quadratures of some 1500
    /// operations per row.
    pub fn work(&self) -> f64 {
        let (rows, stored, widest) = (self.rows as f64, self.stored as f64, self.widest as f64);
        164.0 * rows * widest * widest + 200.0 * stored * widest + 3e4 * rows
    }

    /// Bytes of the exact route: 16 vectors as long as a factor (iterate, trial, directions, curvature), A C twice
    /// where it is kept, and 24 numbers per row; on a pattern 9 vectors (iterate, slope, four of the conjugate
    /// gradients, or a curvature matrix and its inverse), some 8 squares of the widest path and 16 numbers per row, as
    /// bench/structure measures.
    pub fn memory(&self) -> f64 {
        let (rows, stored, widest) = (self.rows as f64, self.stored as f64, self.widest as f64);
        if self.groups > 0 {
            return 8.0 * (9.0 * stored + 8.0 * widest * widest + 16.0 * rows);
        }
        let whitened = if rows * widest <= KEPT { rows * widest } else { 0.0 };
        // a diagonal factor is small, but its certificate is not
        8.0 * (16.0 * stored.max(widest * widest) + 2.0 * whitened + 24.0 * rows)
    }
}

impl Route {
    /// Exact if both its work and its memory are within the limits.
    pub fn choose(size: Size, most_work: f64, most_memory: f64) -> Self {
        let (work, memory) = (size.work(), size.memory());
        let within = work <= most_work && memory <= most_memory;
        let method = if within { Method::Exact } else { Method::Stochastic };
        let why = format!(
            "{}: {} would cost {work:.1e} operations and {:.0} MB, {} the limits of {most_work:.1e} and {:.0} MB",
            method.as_str(),
            size.described(),
            (memory / f64::from(1 << 20)).ceil(),
            if within { "within" } else { "beyond" },
            most_memory / f64::from(1 << 20),
        );
        Self { method, why }
    }

    /// What was asked for, or chosen.
    pub(super) fn of(asked: Method, size: Size) -> Self {
        match asked {
            Method::Auto => Self::choose(size, MOST_WORK, MOST_MEMORY),
            method => Self { method, why: format!("{}: requested ({})", method.as_str(), size.described()) },
        }
    }
}

impl Size {
    fn described(&self) -> String {
        let Size { rows, dim, stored, widest, groups } = *self;
        if groups == 0 {
            return format!("{rows} rows and {dim} coefficients");
        }
        format!(
            "{rows} rows, {dim} coefficients in {groups} blocks ({stored} numbers, the widest path has {widest})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(rows: usize, dim: usize) -> Size {
        Size { rows, dim, stored: dim * dim, widest: dim, groups: 0 }
    }

    /// The formula at its edges: what is exactly at a limit is exact, one more row is not.
    #[test]
    fn the_limits_decide() {
        let size = dense(1000, 50);
        assert_eq!(size.work(), 164.0 * 1000.0 * 2500.0 + 200.0 * 125_000.0 + 3e7);
        assert_eq!(size.memory(), 8.0 * (16.0 * 2500.0 + 2.0 * 50_000.0 + 24_000.0));
        let more = dense(1001, 50);
        let at = |size, work, memory| Route::choose(size, work, memory).method;
        assert_eq!(at(size, size.work(), size.memory()), Method::Exact);
        assert_eq!(at(more, size.work(), 1e18), Method::Stochastic);
        assert_eq!(at(more, 1e18, size.memory()), Method::Stochastic);
        assert_eq!(at(more, more.work(), more.memory()), Method::Exact);
        // A C is kept up to a size and made again beyond
        let (kept, made) = (dense(1 << 20, 32), dense((1 << 20) + 1, 32));
        assert!(made.memory() < kept.memory());
    }

    /// The benchmark problems are exact, a million rows with a thousand features are not; a pattern counts by its own
    /// numbers.
    #[test]
    fn what_is_large() {
        let at = |size| Route::of(Method::Auto, size);
        for (rows, dim) in [(1000, 105), (5000, 500), (10_000, 100), (1_000_000, 100)] {
            assert_eq!(at(dense(rows, dim)).method, Method::Exact, "{rows} × {dim}");
        }
        assert_eq!(at(dense(1_000_000, 1000)).method, Method::Stochastic);
        assert_eq!(at(dense(100, 10_000)).method, Method::Stochastic);
        let arrow = Size { rows: 400_000, dim: 100_005, stored: 1_000_025, widest: 10, groups: 20_001 };
        let route = at(arrow);
        assert_eq!(route.method, Method::Exact);
        assert!(
            route.why.starts_with("exact: 400000 rows, 100005 coefficients in 20001 blocks"),
            "{}",
            route.why
        );
        assert!(route.why.contains("within the limits of 8.8e12 and 6144 MB"), "{}", route.why);
        let million =
            Size { rows: 10_000_000, dim: 5_000_005, stored: 50_000_025, widest: 10, groups: 1_000_001 };
        assert_eq!(at(million).method, Method::Exact);
        assert_eq!(million.memory(), 8.0 * (9.0 * 50_000_025.0 + 800.0 + 160_000_000.0));
        assert_eq!(
            at(Size { groups: 0, stored: 100_005 * 100_005, widest: 100_005, ..arrow }).method,
            Method::Stochastic
        );
        let asked = Route::of(Method::Stochastic, arrow);
        assert!(asked.method == Method::Stochastic && asked.why.contains(": requested"), "{}", asked.why);
    }
}
