//! Writes out what is chosen for each request, limit by limit, before the store is asked.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::by::By;
use crate::code;
use crate::limits;
use crate::number::Units;
use crate::paths::{Root, located_at_start};
use crate::source::Source;
use crate::validate::{Limit, Spec};

/// The choices of all limits, if there are any, and the call that asks the limiter.
pub(crate) fn all(spec: &Spec) -> (Option<TokenStream>, TokenStream) {
    let site = Span::mixed_site();
    let private = spec.root.private(site);
    let each = spec.limits.iter().enumerate();
    let choices: Vec<TokenStream> =
        each.flat_map(|(position, limit)| of_limit(&spec.root, position, limit)).collect();
    if choices.is_empty() {
        let decision = quote_spanned! {site=>
            #private::admit(
                __rate_limit_request,
                __rate_limit_payload,
                &__RATE_LIMIT_LIMITS,
            )
        };
        return (None, decision);
    }
    let choices = quote_spanned! {site=>
        let mut __rate_limit_group = #private::DynamicLimits::new(
            __rate_limit_request,
            __rate_limit_payload,
            &__RATE_LIMIT_LIMITS,
        );
        #(#choices)*
    };
    (Some(choices), quote_spanned!(site=> __rate_limit_group.admit()))
}

/// `skip` first: what follows it is only for limits that still apply.
fn of_limit(root: &Root, position: usize, limit: &Limit) -> Vec<TokenStream> {
    let mut choices = Vec::new();
    if let Some(skip) = &limit.skip {
        choices.push(choice(position, "skip", &value(root, skip, &quote!(bool))));
    }
    if !limit.by.is_immediate() {
        choices.push(choice(position, "by", &key(root, &limit.by)));
    }
    for (setter, units) in [("max", &limit.max), ("cost", &limit.cost)] {
        if let Some(Units::Chosen(source)) = units {
            choices.push(choice(position, setter, &value(root, source, &quote!(u64))));
        }
    }
    choices
}

fn choice(position: usize, setter: &str, value: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    let position = Literal::usize_unsuffixed(position);
    let setter = Ident::new(setter, site);
    quote_spanned! {site=>
        if __rate_limit_group.applies(#position) {
            let __rate_limit_value = #value;
            __rate_limit_group.#setter(#position, __rate_limit_value);
        }
    }
}

/// A number or a yes or no. The primitive types have paths of their own: somebody may have named a type like one.
fn value(root: &Root, source: &Source, primitive: &TokenStream) -> TokenStream {
    match source {
        Source::Closure(closure) => {
            let span = located_at_start(&closure.body);
            let returned = quote_spanned!(span=> ::core::primitive::#primitive);
            code::call(root, closure, code::function(closure, &returned))
        }
        // At the user's path, so that a function that does not fit is reported there.
        Source::Function(path) => {
            let span = located_at_start(path);
            quote_spanned! {span=>
                match __rate_limit_group.call::<::core::primitive::#primitive, _, _>(#path).await {
                    ::core::result::Result::Ok(__rate_limit_value) => __rate_limit_value,
                    ::core::result::Result::Err(__rate_limit_response) => return __rate_limit_response,
                }
            }
        }
    }
}

/// A caller that takes more than a look at the request.
fn key(root: &Root, by: &By) -> TokenStream {
    let site = Span::mixed_site();
    let private = root.private(site);
    match by {
        By::Closure(closure) => {
            let span = located_at_start(&closure.body);
            let private = root.private(span);
            let value = code::call(root, closure, code::key_function(root, closure));
            quote_spanned!(span=> #private::IntoCaller::into_caller(#value))
        }
        By::Parts(parts) => {
            let parts = parts.iter().map(|part| match limits::by(root, part, site) {
                Some(part) => quote_spanned!(site=> __rate_limit_group.part(#part)),
                None => key(root, part),
            });
            quote_spanned!(site=> #private::join([#(#parts),*]))
        }
        other => {
            let by = limits::by(root, other, site);
            quote_spanned!(site=> __rate_limit_group.part(#by))
        }
    }
}
