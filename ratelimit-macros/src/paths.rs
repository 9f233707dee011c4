//! Where expansions find the facade: its root, and the names in its hidden module.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

/// Everything that an expansion names below [`Root::private`]; the facade has to define each.
#[cfg(test)]
pub(crate) const NAMES: [&str; 20] = [
    "HttpRequest",
    "HttpResponse",
    "Payload",
    "HandlerLimit",
    "Policy",
    "Algorithm",
    "By",
    "OnMissing",
    "OnError",
    "Count",
    "IntoCaller",
    "DefaultKey",
    "Declaration",
    "SourceText",
    "inventory",
    "DynamicLimits",
    "admit",
    "join",
    "assert_extractor",
    "assert_bodyless_extractor",
];

/// The path under which the user's crate knows the facade.
pub(crate) enum Root {
    /// `::ratelimit_actix`.
    Default,
    /// The value of `crate = ..`.
    Given(syn::ExprPath),
}

impl Root {
    /// The facade's hidden module, at `span`.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        match self {
            Self::Default => quote_spanned!(span=> ::ratelimit_actix::__private),
            Self::Given(path) => quote_spanned!(span=> #path::__private),
        }
    }
}

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
