//! Quartiles: what a set of rounds says, and how sure it is.

use std::fmt;

/// The quartiles of the rounds of one variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// A quarter of the rounds is lower.
    pub low: f64,
    /// Half of the rounds are lower.
    pub median: f64,
    /// A quarter of the rounds is higher.
    pub high: f64,
}

impl Spread {
    /// The quartiles of these numbers.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_unstable_by(f64::total_cmp);
        let [low, median, high] = [0.25, 0.5, 0.75].map(|part| at(&numbers, part));
        Self { low, median, high }
    }

    /// The number below which this part of the numbers lies, between 0 and 1.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub fn quantile(numbers: &[f64], part: f64) -> f64 {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(f64::total_cmp);
        at(&numbers, part)
    }

    /// The quartiles of the ratios of `ours` to `theirs`, round by round.
    pub fn ratio(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
    }

    /// The quartiles of the differences of `ours` to `theirs`, round by round.
    pub fn difference(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours - theirs).collect())
    }
}

/// The quantile of sorted numbers.
fn at(sorted: &[f64], part: f64) -> f64 {
    assert!(!sorted.is_empty(), "nothing was measured");
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// As many digits as mean something.
pub fn short(number: f64) -> String {
    match number.abs() {
        1_000_000.0.. => format!("{:.2} M", number / 1_000_000.0),
        100_000.0.. => format!("{:.0} k", number / 1000.0),
        10_000.0.. => format!("{:.1} k", number / 1000.0),
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A round number, without digits behind the point.
pub fn round(number: f64) -> String {
    short(number).replace(".00", "").replace(".0", "")
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, low, high] = [self.median, self.low, self.high].map(short);
        if low == high { f.write_str(&median) } else { write!(f, "{median} ({low}–{high})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0 });
        let spread = Spread::of(vec![2.0, 1.0]);
        assert_eq!(spread, Spread { low: 1.25, median: 1.5, high: 1.75 });
    }

    #[test]
    fn quantiles_need_no_order() {
        let numbers: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|part| Spread::quantile(&numbers, part));
        assert_eq!(quantiles.map(short), ["0.00", "50.0", "99.0", "100"]);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // A round on a machine that was busy is slower for both, and says the same.
        let spread = Spread::ratio(&[10.0, 100.0, 10.0], &[5.0, 50.0, 5.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 2.0, high: 2.0 });
    }

    #[test]
    fn rounds_that_agree_need_no_quartiles() {
        assert_eq!(Spread { low: 1.2, median: 1.25, high: 1.3 }.to_string(), "1.25 (1.20–1.30)");
        assert_eq!(Spread { low: 1.0, median: 1.0, high: 1.0 }.to_string(), "1.00");
    }

    #[test]
    fn numbers_have_three_digits_or_so() {
        let texts = [0.123, 12.34, 123.4, 1234.0, 12_345.0, 123_456.0, 1_234_567.0].map(short);
        assert_eq!([1.0, 10.0, 10_000.0, 1_000_000.0].map(round), ["1", "10", "10 k", "1 M"]);
        assert_eq!(texts, ["0.12", "12.3", "123", "1234", "12.3 k", "123 k", "1.23 M"]);
    }
}
