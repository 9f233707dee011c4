//! The line of a place in a text, without a walk through the text for each place.

/// Where the lines of a text end, in ascending order.
pub(super) struct Lines<E = usize>(Vec<E>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end).collect())
    }
}

impl<E: PartialOrd<usize>> Lines<E> {
    /// The line of a place in the text, from 1 on.
    pub(super) fn at(&self, place: usize) -> usize {
        1 + self.0.partition_point(|end| *end < place)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    /// The end of a line that counts how often it is compared.
    struct Counted<'c>(usize, &'c Cell<u32>);

    impl PartialEq<usize> for Counted<'_> {
        fn eq(&self, other: &usize) -> bool {
            self.0 == *other
        }
    }

    impl PartialOrd<usize> for Counted<'_> {
        fn partial_cmp(&self, other: &usize) -> Option<Ordering> {
            self.1.set(self.1.get() + 1);
            self.0.partial_cmp(other)
        }
    }

    #[test]
    fn lines_count_from_1_and_end_with_their_break() {
        let lines = Lines::of("ab\n\nc");
        assert_eq!([0, 2, 3, 4, 5].map(|place| lines.at(place)), [1, 1, 2, 3, 3]);
        assert_eq!(Lines::of("").at(0), 1);
    }

    #[test]
    fn the_line_of_each_of_a_million_rows_is_found_with_at_most_21_comparisons() {
        let comparisons = Cell::new(0);
        let lines = Lines((0..1 << 20).map(|row| Counted(4 * row + 3, &comparisons)).collect());
        for row in (0..1 << 20).step_by(4_099) {
            comparisons.set(0);
            assert_eq!(lines.at(4 * row), row + 1);
            assert!((1..=21).contains(&comparisons.get()), "row {row}: {}", comparisons.get());
        }
    }
}
