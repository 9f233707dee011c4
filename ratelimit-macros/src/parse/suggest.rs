//! Suggestions in messages: the nearest known word, and lists of words.
//!
//! `ratelimit-core/src/policy/suggest.rs` and `ratelimit-macros/src/parse/suggest.rs` are the same file,
//! because the attribute's crate does not depend on the core. A test of the workspace compares them.

/// The candidate nearest to `word`, if `word` is likely to be a misspelling of it.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    let tolerance = length.max(3) / 3;
    candidates
        .into_iter()
        // The distance is at least that of the lengths; to compute it takes long for a long word.
        .filter(|candidate| length.abs_diff(candidate.chars().count()) <= tolerance)
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The number of letters to insert, delete or replace, and of neighbours to swap.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut above = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let edited = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            let is_swap = i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b;
            next.push(if is_swap { edited.min(above[j - 1] + 1) } else { edited });
        }
        above = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

/// Joins `words` with commas, each in `quote`s.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>, quote: char) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("{quote}{word}{quote}")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("window", "window"), 0);
        assert_eq!(distance("windw", "window"), 1);
        assert_eq!(distance("", "max"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("shpo", "shop"), 1, "neighbours that are swapped");
        assert_eq!(distance("hspo", "shop"), 2);
    }

    #[test]
    fn nearest_ignores_case_and_distant_words() {
        assert_eq!(nearest("Windw", ["max", "window"]), Some("window"));
        assert_eq!(nearest("MAX", ["max", "window"]), Some("max"));
        assert_eq!(nearest("colour", ["max", "window"]), None);
    }

    #[test]
    fn a_word_much_longer_than_all_others_is_not_compared() {
        // Comparing would take hours.
        assert_eq!(nearest(&"x".repeat(4 << 20), [&*"x".repeat(128); 1_000]), None);
    }
}
