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
        assert!(!numbers.is_empty(), "nothing was measured");
        numbers.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (numbers.len() - 1) as f64;
            let (below, above) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
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

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} to {})", short(self.median), short(self.low), short(self.high))
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
    fn ratios_are_taken_within_a_round() {
        // A round on a machine that was busy is slower for both, and says the same.
        let spread = Spread::ratio(&[10.0, 100.0, 10.0], &[5.0, 50.0, 5.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 2.0, high: 2.0 });
    }

    #[test]
    fn numbers_have_three_digits_or_so() {
        let texts = [0.123, 12.34, 123.4, 1234.0, 12_345.0, 123_456.0, 1_234_567.0].map(short);
        assert_eq!(texts, ["0.12", "12.3", "123", "1234", "12.3 k", "123 k", "1.23 M"]);
    }
}
