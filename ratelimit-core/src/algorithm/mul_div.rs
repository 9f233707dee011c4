//! Exact multiplication and division.

/// `a * b / c`, rounded down, and the remainder.
///
/// Exact for every combination of numbers that [`Policy`](crate::policy::Policy) admits. Saturates if the quotient does not
/// fit, which no such combination reaches.
#[inline]
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> (u64, u64) {
    // The product nearly always fits, and a division of 128 bits takes several times as long.
    if let Some(product) = a.checked_mul(b) {
        return (product / c, product % c);
    }
    let product = u128::from(a) * u128::from(b);
    let c = u128::from(c);
    let clip = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    (clip(product / c), clip(product % c))
}
