//! Writes a specification out; nothing here can fail.
//!
//! The handler becomes a wrapper of the same name over the request and its payload. The user's function is nested in it,
//! or stands beside it, as it was written, so the compiler's messages about it stay on the user's own code, and it is not
//! called before the limits have been decided. Everything else is in the facade's hidden module, as ordinary functions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ReturnType;

use crate::handler::{Argument, Form, Handler, conditions, is_same};
use crate::paths::{located, located_at_start};
use crate::validate::Spec;
use crate::value::Count;
use crate::{choices, limits};

/// The wrapper with everything it holds, and the user's function if that stands beside it.
pub(crate) fn expand(spec: &Spec) -> TokenStream {
    let site = Span::mixed_site();
    let private = spec.root.private(site);
    let Handler { outer, visibility, signature, form, .. } = &spec.handler;
    let (name, generics, conditions) =
        (&signature.ident, &signature.generics, &signature.generics.where_clause);
    let function = function(&spec.handler);
    let (beside, nested) = match form {
        Form::Nested => (None, Some(function)),
        Form::Beside { .. } => (Some(function), None),
    };
    let limits = limits::all(spec);
    let declaration = limits::declaration(spec);
    let steps = steps(spec);
    quote_spanned! {site=>
        #beside
        #(#outer)*
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
    let Handler { inner, visibility, signature, body, form, .. } = handler;
    match form {
        Form::Nested => quote!(#(#inner)* #signature #body),
        Form::Beside { name, is_direct } => {
            let visibility = is_direct.then_some(visibility);
            let signature = syn::Signature { ident: name.clone(), ..signature.clone() };
            quote!(#(#inner)* #visibility #signature #body)
        }
    }
}

/// What the wrapper does; once for every combination of the conditions on arguments, of which one is true.
fn steps(spec: &Spec) -> TokenStream {
    let arguments = &spec.handler.arguments;
    let conditions = conditions(arguments);
    if conditions.is_empty() {
        return steps_with(spec, &arguments.iter().collect::<Vec<_>>());
    }
    let combinations = (0..1_usize << conditions.len()).map(|combination| {
        let holds = |condition: &TokenStream| {
            conditions
                .iter()
                .position(|other| is_same(other, condition))
                .is_some_and(|i| combination & (1 << i) != 0)
        };
        let present: Vec<&Argument> =
            arguments.iter().filter(|argument| argument.condition.as_ref().is_none_or(holds)).collect();
        let terms = conditions
            .iter()
            .map(|&condition| if holds(condition) { condition.clone() } else { quote!(not(#condition)) });
        let steps = steps_with(spec, &present);
        quote_spanned!(Span::mixed_site()=> #[cfg(all(#(#terms),*))] { #steps })
    });
    quote!(#(#combinations)*)
}

/// Decide, extract, call, respond.
fn steps_with(spec: &Spec, arguments: &[&Argument]) -> TokenStream {
    let site = Span::mixed_site();
    let checks = arguments.iter().map(|argument| {
        let extractor = &argument.extractor;
        let span = located_at_start(extractor);
        let private = spec.root.private(span);
        quote_spanned!(span=> #private::assert_extractor::<#extractor>();)
    });
    let names: Vec<Ident> = (0..arguments.len())
        .map(|index| format_ident!("__rate_limit_argument_{index}", span = site))
        .collect();
    let counted = spec.limits.iter().any(|limit| !matches!(limit.count, Count::All));
    let extraction = extraction(&spec.handler, arguments, &names, counted);
    let mutable = (!arguments.is_empty()).then(|| quote!(mut));
    let respond = respond(&spec.handler, &names, counted);
    let (choices, decision) = choices::all(spec);
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
    arguments: &[&Argument],
    names: &[Ident],
    counted: bool,
) -> Option<TokenStream> {
    if arguments.is_empty() {
        return None;
    }
    let span = located(handler.signature.ident.span());
    let extractors = arguments.iter().map(|argument| &argument.extractor);
    let failed = if counted {
        quote_spanned!(span=> __rate_limit_pass.finish(__rate_limit_response).await)
    } else {
        quote_spanned!(span=> __rate_limit_response)
    };
    Some(quote_spanned! {span=>
        let (#(#names,)*) = match __rate_limit_pass.extract::<(#(#extractors,)*)>().await {
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
