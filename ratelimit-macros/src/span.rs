//! Spans for generated code that the compiler reports at the user's source.

use proc_macro2::Span;
use quote::ToTokens;

/// A place in the user's source for code of our own: errors point there, names resolve as ours.
///
/// Such code counts as expanded, so lints about the user's style do not look at it.
pub(crate) fn located(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// The first place of some tokens; see [`located`].
pub(crate) fn located_at_start(tokens: impl ToTokens) -> Span {
    let first = tokens.into_token_stream().into_iter().next();
    located(first.map_or_else(Span::call_site, |token| token.span()))
}
