//! Paths in expansions: the facade's root, its hidden module and the names in that module.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ExprPath;

use crate::validate::spec::HandlerSpec;

/// The facade's hidden module. Its name contains the version, so that no other code relies on it.
pub(crate) const PRIVATE: &str = "__private_0_1";

/// All names that expansions use below [`Facade::private`]. The facade has to define each.
#[cfg(test)]
pub(crate) const NAMES: [&str; 35] = [
    "HttpRequest",
    "HttpResponse",
    "Payload",
    "WrittenLimit",
    "Computed",
    "Policy",
    "Algorithm",
    "Calendar",
    "Weekday",
    "By",
    "OnMissing",
    "OnError",
    "Mode",
    "Count",
    "IntoCaller",
    "DefaultKey",
    "Declaration",
    "Declared",
    "inventory",
    "PerRequest",
    "IntoPlan",
    "admit",
    "admit_computed",
    "extract",
    "later",
    "later_call",
    "TakesExtractors",
    "TakesExtractorsAsync",
    "calendar_year",
    "principal",
    "principal_or_ip",
    "assert_extractor",
    "assert_bodyless_extractor",
    "assert_policy",
    "attributes",
];

/// The path of the facade in the user's crate: the value of `crate = ..`, or `::ratelimit_actix` without it.
#[derive(Clone, Copy)]
pub(crate) struct Facade<'a>(pub(crate) Option<&'a ExprPath>);

impl<'a> Facade<'a> {
    pub(crate) fn of(spec: &'a HandlerSpec) -> Self {
        Self(spec.facade.as_ref())
    }

    /// The facade's hidden module, at `span`.
    pub(crate) fn private(self, span: Span) -> TokenStream {
        let module = Ident::new(PRIVATE, span);
        match self.0 {
            None => quote_spanned!(span=> ::ratelimit_actix::#module),
            Some(path) => quote_spanned!(span=> #path::#module),
        }
    }
}
