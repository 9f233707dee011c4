//! Records mistakes: all of an attribute are reported in one compilation, each at the user's source.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;

use crate::parse::kind::Kind;

/// The mistakes recorded so far.
pub(crate) struct Diagnostics {
    /// The attribute that is being expanded, for messages about the item.
    pub(crate) kind: Kind,
    errors: Option<syn::Error>,
}

/// Proof that a mistake has been recorded. Code that receives it need not report the mistake again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported(());

impl Diagnostics {
    /// No mistake so far.
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { kind, errors: None }
    }

    /// Runs `work` and returns its value if it recorded no mistake.
    ///
    /// # Errors
    ///
    /// All mistakes that `work` recorded, as one error.
    pub(crate) fn collect<T>(
        kind: Kind,
        work: impl FnOnce(&mut Self) -> Result<T, Reported>,
    ) -> syn::Result<T> {
        let mut diagnostics = Self::new(kind);
        let result = work(&mut diagnostics);
        match (result, diagnostics.errors) {
            (Ok(value), None) => Ok(value),
            (_, Some(errors)) => Err(errors),
            (Err(Reported(())), None) => {
                let message = "a mistake was found but not described; please report this bug";
                Err(syn::Error::new(Span::call_site(), message))
            }
        }
    }

    /// Records a mistake at its tokens.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl Display) -> Reported {
        self.push(syn::Error::new_spanned(at, message))
    }

    /// Records a mistake that has a span but no tokens.
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

/// A span for generated code: errors point at `span`, and names resolve at the definition of the macro.
///
/// The compiler treats such code as expanded, so style lints skip it.
pub(crate) fn located(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// [`located`] at the first of `tokens`.
pub(crate) fn located_at_start(tokens: impl ToTokens) -> Span {
    let first = tokens.into_token_stream().into_iter().next();
    located(first.map_or_else(Span::call_site, |token| token.span()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_recorded_mistakes_are_returned() {
        let result = Diagnostics::collect(Kind::Rate, |diagnostics| {
            diagnostics.error_at(Span::call_site(), "one");
            diagnostics.error_at(Span::call_site(), "two");
            Ok(())
        });
        let messages: Vec<String> = result.unwrap_err().into_iter().map(|error| error.to_string()).collect();
        assert_eq!(messages, ["one", "two"]);
    }
}
