//! Collects every mistake of an attribute and its function, so that one compilation shows them all.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Diagnostics {
    errors: Option<syn::Error>,
}

/// Proof that a mistake has been recorded; whoever holds one need not report it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported(());

impl Diagnostics {
    /// Runs `work`, and gives its value back only if it recorded no mistake.
    ///
    /// # Errors
    ///
    /// Every mistake that `work` recorded, as one error.
    pub(crate) fn collect<T>(work: impl FnOnce(&mut Self) -> Result<T, Reported>) -> syn::Result<T> {
        let mut diagnostics = Self::default();
        let result = work(&mut diagnostics);
        match (result, diagnostics.errors) {
            (Ok(value), None) => Ok(value),
            (_, Some(errors)) => Err(errors),
            (Err(Reported(())), None) => Err(syn::Error::new(
                Span::call_site(),
                "a mistake was found but not described; please report this bug",
            )),
        }
    }

    /// Records a mistake at the tokens that hold it.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl Display) -> Reported {
        self.push(syn::Error::new_spanned(at, message))
    }

    /// Records a mistake that has only a place, no tokens.
    pub(crate) fn error_at(&mut self, at: Span, message: impl Display) -> Reported {
        self.push(syn::Error::new(at, message))
    }

    /// Records a mistake that `syn` found.
    pub(crate) fn push(&mut self, error: syn::Error) -> Reported {
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
        Reported(())
    }
}

/// The candidate that `word` is most likely a misspelling of.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let tolerance = word.chars().count().max(3) / 3;
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: how many letters to insert, delete or replace.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

/// `a`, `b`, `c`: words to choose from, each in `quote`s.
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
    }

    #[test]
    fn nearest_ignores_case_and_the_far_away() {
        assert_eq!(nearest("Windw", ["max", "window"]), Some("window"));
        assert_eq!(nearest("MAX", ["max", "window"]), Some("max"));
        assert_eq!(nearest("colour", ["max", "window"]), None);
    }

    #[test]
    fn nothing_that_was_recorded_is_lost() {
        let result = Diagnostics::collect(|diagnostics| {
            diagnostics.error_at(Span::call_site(), "one");
            diagnostics.error_at(Span::call_site(), "two");
            Ok(())
        });
        let messages: Vec<String> = result.unwrap_err().into_iter().map(|error| error.to_string()).collect();
        assert_eq!(messages, ["one", "two"]);
    }
}
