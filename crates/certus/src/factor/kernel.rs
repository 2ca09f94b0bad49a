//! Products with a block of `n` rows stored by columns. Small n are compiled with n known, which is what makes millions
//! of small blocks run at the speed of memory.

macro_rules! by_size {
    ($n:expr, $kernel:ident($($argument:expr),*)) => {
        match $n {
            1 => $kernel::<1>(1, $($argument),*),
            2 => $kernel::<2>(2, $($argument),*),
            3 => $kernel::<3>(3, $($argument),*),
            4 => $kernel::<4>(4, $($argument),*),
            5 => $kernel::<5>(5, $($argument),*),
            6 => $kernel::<6>(6, $($argument),*),
            n => $kernel::<0>(n, $($argument),*),
        }
    };
}

/// The number of rows: N where it is known when compiling, else n.
#[inline(always)]
fn rows<const N: usize>(n: usize) -> usize {
    if N > 0 { N } else { n }
}

/// z += alpha · block · u.
#[inline(always)]
pub(super) fn add_times(n: usize, alpha: f64, block: &[f64], u: &[f64], z: &mut [f64]) {
    by_size!(n, add_times_sized(alpha, block, u, z));
}

#[inline(always)]
fn add_times_sized<const N: usize>(n: usize, alpha: f64, block: &[f64], u: &[f64], z: &mut [f64]) {
    let n = rows::<N>(n);
    let z = &mut z[..n];
    for (column, u) in block.chunks_exact(n).zip(u) {
        let u = alpha * u;
        for i in 0..n {
            z[i] += column[i] * u;
        }
    }
}

/// block += alpha · a uᵀ.
#[inline(always)]
pub(super) fn add_outer(n: usize, alpha: f64, a: &[f64], u: &[f64], block: &mut [f64]) {
    by_size!(n, add_outer_sized(alpha, a, u, block));
}

#[inline(always)]
fn add_outer_sized<const N: usize>(n: usize, alpha: f64, a: &[f64], u: &[f64], block: &mut [f64]) {
    let n = rows::<N>(n);
    let a = &a[..n];
    for (column, u) in block.chunks_exact_mut(n).zip(u) {
        let u = alpha * u;
        for i in 0..n {
            column[i] += a[i] * u;
        }
    }
}

/// block += alpha · tril(a uᵀ).
#[inline(always)]
pub(super) fn add_lower_outer(n: usize, alpha: f64, a: &[f64], u: &[f64], block: &mut [f64]) {
    by_size!(n, add_lower_outer_sized(alpha, a, u, block));
}

#[inline(always)]
fn add_lower_outer_sized<const N: usize>(n: usize, alpha: f64, a: &[f64], u: &[f64], block: &mut [f64]) {
    let n = rows::<N>(n);
    let (a, u, block) = (&a[..n], &u[..n], &mut block[..n * n]);
    for j in 0..n {
        let u = alpha * u[j];
        for i in j..n {
            block[j * n + i] += a[i] * u;
        }
    }
}

/// z += alpha · blockᵀ x.
#[inline(always)]
pub(super) fn add_transpose_times(n: usize, alpha: f64, block: &[f64], x: &[f64], z: &mut [f64]) {
    by_size!(n, add_transpose_times_sized(alpha, block, x, z));
}

#[inline(always)]
fn add_transpose_times_sized<const N: usize>(n: usize, alpha: f64, block: &[f64], x: &[f64], z: &mut [f64]) {
    let n = rows::<N>(n);
    let x = &x[..n];
    for (column, z) in block.chunks_exact(n).zip(z) {
        let mut sum = 0.0;
        for i in 0..n {
            sum += column[i] * x[i];
        }
        *z += alpha * sum;
    }
}
