//! Spans for generated code that the compiler reports at the user's source.

use proc_macro2::Span;
use quote::ToTokens;

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
