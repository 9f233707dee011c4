//! Writes a specification out; nothing here can fail.
//!
//! The handler becomes a wrapper of the same name over the request and its payload. The user's function is nested in it,
//! or stands beside it, as it was written, so the compiler's messages about it stay on the user's own code, and it is not
//! called before the limits have been decided. Everything else is in the facade's hidden module, as ordinary functions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ReturnType;

use crate::expand::paths::Facade;
use crate::expand::{declaration, dynamic, limits};
use crate::parse::choice::Count;
use crate::span::{located, located_at_start};
use crate::validate::extractors::{Extractor, conditions, is_same};
use crate::validate::handler::{Form, Handler};
use crate::validate::spec::HandlerSpec;

/// The wrapper with everything it holds, and the user's function if that stands beside it.
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
    let limits = limits::all(spec);
    let declaration = declaration::declaration(spec);
    let steps = steps(spec);
    quote_spanned! {site=>
        #beside
        #(#wrapper_attributes)*
        #visibility async fn #name #generics (
            __rate_limit_request: #private::HttpRequest,
            __rate_limit_payload: #private::Payload,
        ) -> #private::HttpResponse #conditions {
            #nested
            #limits
            #declaration
            #steps
        }
    }
}

/// The user's function, as it was written but for its visibility, its name if it stands beside the wrapper, and the
/// attributes of the wrapper.
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

/// What the wrapper does; once for every combination of the conditions on arguments, of which one is true.
fn steps(spec: &HandlerSpec) -> TokenStream {
    let extractors = &spec.handler.extractors;
    let conditions = conditions(extractors);
    if conditions.is_empty() {
        return steps_with(spec, &extractors.iter().collect::<Vec<_>>());
    }
    let combinations = (0..1_usize << conditions.len()).map(|combination| {
        let holds = |condition: &TokenStream| {
            conditions
                .iter()
                .position(|other| is_same(other, condition))
                .is_some_and(|i| combination & (1 << i) != 0)
        };
        let present: Vec<&Extractor> =
            extractors.iter().filter(|extractor| extractor.condition.as_ref().is_none_or(holds)).collect();
        let terms = conditions
            .iter()
            .map(|&condition| if holds(condition) { condition.clone() } else { quote!(not(#condition)) });
        let steps = steps_with(spec, &present);
        quote_spanned!(Span::mixed_site()=> #[cfg(all(#(#terms),*))] { #steps })
    });
    quote!(#(#combinations)*)
}

/// Decide, extract, call, respond.
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
    let counted = spec.limits.iter().any(|limit| !matches!(limit.count, Count::All));
    let extraction = extraction(&spec.handler, extractors, &names, counted);
    let mutable = (!extractors.is_empty()).then(|| quote!(mut));
    let respond = respond(&spec.handler, &names, counted);
    let (choices, decision) = dynamic::all(spec);
    quote_spanned! {site=>
        #(#checks)*
        #choices
        let #mutable __rate_limit_pass = match #decision.await {
            ::core::result::Result::Ok(__rate_limit_pass) => __rate_limit_pass,
            ::core::result::Result::Err(__rate_limit_denied) => return __rate_limit_denied,
        };
        #extraction
        #respond
    }
}

/// Stands at the handler's name: what rustc says about the tuple when one extractor is wrong, after the message of
/// `assert_extractor` about that one, points at no innocent argument.
fn extraction(
    handler: &Handler,
    extractors: &[&Extractor],
    names: &[Ident],
    counted: bool,
) -> Option<TokenStream> {
    if extractors.is_empty() {
        return None;
    }
    let span = located(handler.signature.ident.span());
    let types = extractors.iter().map(|extractor| &extractor.ty);
    let failed = if counted {
        quote_spanned!(span=> __rate_limit_pass.settle(__rate_limit_response).await)
    } else {
        quote_spanned!(span=> __rate_limit_response)
    };
    Some(quote_spanned! {span=>
        let (#(#names,)*) = match __rate_limit_pass.extract::<(#(#types,)*)>().await {
            ::core::result::Result::Ok(__rate_limit_arguments) => __rate_limit_arguments,
            ::core::result::Result::Err(__rate_limit_response) => return #failed,
        };
    })
}

/// Stands at the return type: that is what is wrong when the value is not a `Responder`.
///
/// The function is taken as a value before it is called: that it has to be async without an `await` in it is then no
/// matter to `clippy::unused_async`, as with any handler that is given to a route.
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
            __rate_limit_pass.settle(__rate_limit_response).await
        }
    } else {
        respond
    };
    quote_spanned! {span=>
        let __rate_limit_function = #name #turbofish;
        #respond
    }
}
