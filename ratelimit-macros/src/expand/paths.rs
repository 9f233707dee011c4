//! Where expansions find the facade: its root, and the names in its hidden module.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::ExprPath;

use crate::validate::spec::HandlerSpec;

/// Everything that an expansion names below [`Facade::private`]; the facade has to define each.
#[cfg(test)]
pub(crate) const NAMES: [&str; 20] = [
    "HttpRequest",
    "HttpResponse",
    "Payload",
    "Limit",
    "Policy",
    "Algorithm",
    "By",
    "OnMissing",
    "OnError",
    "Count",
    "IntoKey",
    "DefaultKey",
    "Declaration",
    "Text",
    "inventory",
    "Group",
    "begin",
    "join",
    "assert_extractor",
    "assert_bodyless_extractor",
];

/// The path under which the user's crate knows the facade.
#[derive(Clone, Copy)]
pub(crate) enum Facade<'a> {
    /// `::ratelimit_actix`.
    Default,
    /// The value of `crate = ..`.
    Given(&'a ExprPath),
}

impl<'a> Facade<'a> {
    pub(crate) fn of(spec: &'a HandlerSpec) -> Self {
        spec.facade.as_ref().map_or(Self::Default, Self::Given)
    }

    /// The facade's hidden module, at `span`.
    pub(crate) fn private(self, span: Span) -> TokenStream {
        match self {
            Self::Default => quote_spanned!(span=> ::ratelimit_actix::__private),
            Self::Given(path) => quote_spanned!(span=> #path::__private),
        }
    }
}
