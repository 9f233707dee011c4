//! Writes out the wrapper of one handler.
//!
//! The wrapper has the handler's name and takes the request and its payload. The user's function is nested in
//! the wrapper or stands beside it. It is copied unchanged, so that compiler messages about it point at the
//! user's code, and it is called only after the limits have been checked. All other code is in the facade's
//! hidden module, as ordinary functions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ReturnType;

use crate::diagnostics::{located, located_at_start};
use crate::expand::limits;
use crate::expand::paths::Facade;
use crate::parse::args::value_of;
use crate::parse::values::choice::{Count, Responses};
use crate::validate::extractors::Extractor;
use crate::validate::handler::{Form, Handler};
use crate::validate::spec::HandlerSpec;

/// The wrapper, and the user's function if it stands beside the wrapper.
pub(crate) fn expand(spec: &HandlerSpec) -> TokenStream {
    let site = Span::mixed_site();
    let private = Facade::of(spec).private(site);
    let Handler { wrapper_attributes, visibility, signature, form, .. } = &spec.handler;
    let (name, generics, conditions) =
        (&signature.ident, &signature.generics, &signature.generics.where_clause);
    let function = function(&spec.handler);
    let (beside, nested) = match form {
        Form::Nested => (None, Some(function)),
        Form::Beside { .. } => (Some(function), None),
    };
    let declaration = limits::declaration(spec);
    let steps = steps(spec);
    let used = spec.other_kind.as_ref().map(used);
    // The wrapper's future contains the request, so it is not `Send`, also if the user's function is.
    quote_spanned! {site=>
        #beside
        #[allow(clippy::future_not_send)]
        #(#wrapper_attributes)*
        #visibility async fn #name #generics (
            __rate_limit_request: #private::HttpRequest,
            __rate_limit_payload: #private::Payload,
        ) -> #private::HttpResponse #conditions {
            #nested
            #used
            #declaration
            #steps
        }
    }
}

/// The argument of an attribute without effect: it only uses the import, which is not reported then.
pub(crate) const USED: &str = "__rate_limit_used";

/// A use of an attribute that the expansion has removed, on an item without effect. The compiler then reports
/// a missing import, but no unused one.
pub(crate) fn used(path: &syn::Path) -> TokenStream {
    let mark = Ident::new(USED, Span::mixed_site());
    quote_spanned!(Span::mixed_site()=> #[#path(#mark)] const _: () = ();)
}

/// The user's function without the wrapper's attributes. A nested one has no visibility, and one beside the
/// wrapper has another name.
fn function(handler: &Handler) -> TokenStream {
    let Handler { function_attributes, visibility, signature, body, form, .. } = handler;
    match form {
        Form::Nested => quote!(#(#function_attributes)* #signature #body),
        Form::Beside { name, is_named } => {
            let visibility = is_named.then_some(visibility);
            let signature = syn::Signature { ident: name.clone(), ..signature.clone() };
            quote!(#(#function_attributes)* #visibility #signature #body)
        }
    }
}

/// The statements of the wrapper. If arguments are under a condition, there is a block with them, and one
/// without, because the parts of a tuple and of a call cannot be under `cfg`.
fn steps(spec: &HandlerSpec) -> TokenStream {
    let all: Vec<&Extractor> = spec.handler.extractors.iter().collect();
    let with = steps_with(spec, &all);
    let Some(condition) = all.iter().find_map(|extractor| extractor.condition.as_ref()) else { return with };
    let required: Vec<&Extractor> =
        all.iter().copied().filter(|extractor| extractor.condition.is_none()).collect();
    let without = steps_with(spec, &required);
    quote_spanned! {Span::mixed_site()=>
        #[cfg(#condition)] { #with }
        #[cfg(not(#condition))] { #without }
    }
}

/// Checks the limits, extracts the arguments, calls the function and responds.
fn steps_with(spec: &HandlerSpec, extractors: &[&Extractor]) -> TokenStream {
    let site = Span::mixed_site();
    let checks = extractors.iter().map(|extractor| {
        let ty = &extractor.ty;
        let span = located_at_start(ty);
        let private = Facade::of(spec).private(span);
        quote_spanned!(span=> #private::assert_extractor::<#ty>();)
    });
    let names: Vec<Ident> = (0..extractors.len())
        .map(|index| format_ident!("__rate_limit_argument_{index}", span = site))
        .collect();
    let counted = spec.limits.iter().any(|limit| {
        value_of(limit.count.as_ref()).is_some_and(|count| !matches!(count, Responses::Named(Count::All)))
    });
    let respond = respond(&spec.handler, &names, counted);
    let extraction = extraction(spec, extractors, &names);
    quote_spanned! {site=>
        #(#checks)*
        #extraction
        #respond
    }
}

/// Awaits the decision, and extracts the arguments of an admitted request.
///
/// The code is spanned at the handler's name. If an argument is no extractor, `assert_extractor` reports it;
/// the compiler's second error, about the tuple, then points at no other argument.
fn extraction(spec: &HandlerSpec, extractors: &[&Extractor], names: &[Ident]) -> TokenStream {
    let span = located(spec.handler.signature.ident.span());
    let site = Span::mixed_site();
    let facade = Facade::of(spec);
    let private = facade.private(site);
    let is_computed = spec.limits.iter().any(|limit| limits::is_computed(facade, limit));
    let admit = Ident::new(if is_computed { "admit_computed" } else { "admit" }, site);
    let admit = quote_spanned! {site=>
        #private::#admit(__rate_limit_request, __rate_limit_payload, &__RATE_LIMIT.limits)
    };
    let (pass, admitted) = if extractors.is_empty() {
        (quote_spanned!(span=> __rate_limit_pass), admit)
    } else {
        let types = extractors.iter().map(|extractor| &extractor.ty);
        let private = facade.private(span);
        let pass = quote_spanned!(span=> (__rate_limit_pass, (#(#names,)*)));
        (pass, quote_spanned!(span=> #private::extract::<(#(#types,)*)>(#admit)))
    };
    quote_spanned! {span=>
        let #pass = match #admitted.await {
            ::core::result::Result::Ok(__rate_limit_admitted) => __rate_limit_admitted,
            ::core::result::Result::Err(__rate_limit_response) => return __rate_limit_response,
        };
    }
}

/// Calls the user's function and responds.
///
/// The code is spanned at the return type, which is wrong if the value is not a `Responder`. The function is
/// taken as a value before the call, because `clippy::unused_async` ignores functions that are used so.
fn respond(handler: &Handler, names: &[Ident], counted: bool) -> TokenStream {
    let signature = &handler.signature;
    let span = match &signature.output {
        ReturnType::Default => located(signature.ident.span()),
        ReturnType::Type(_, returned) => located_at_start(returned),
    };
    let name = match &handler.form {
        Form::Nested => signature.ident.to_token_stream(),
        Form::Beside { name, .. } if handler.owner.is_some() => quote_spanned!(name.span()=> Self::#name),
        Form::Beside { name, .. } => name.to_token_stream(),
    };
    let turbofish = handler.turbofish();
    let respond = quote_spanned!(span=> __rate_limit_pass.respond(__rate_limit_function(#(#names),*).await));
    let respond = if counted {
        quote_spanned! {span=>
            let __rate_limit_response = #respond;
            __rate_limit_pass.finish(__rate_limit_response).await
        }
    } else {
        respond
    };
    quote_spanned! {span=>
        let __rate_limit_function = #name #turbofish;
        #respond
    }
}
