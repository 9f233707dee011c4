//! Writes a specification out; nothing here can fail.
//!
//! The handler becomes a wrapper of the same name over the request and its payload. The user's function is nested in it
//! as it was written, so the compiler's messages about it stay on the user's own code, and it is not called before the
//! limits have been decided. Everything else is in the facade's hidden module, as ordinary functions.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ReturnType;

use crate::algorithm::Algorithm;
use crate::handler::{Argument, Handler, conditions, is_same};
use crate::paths::{Root, located, located_at_start};
use crate::validate::{Key, Limit, Spec};
use crate::value::{By, Name, Number, Window};

/// The wrapper with everything it holds.
pub(crate) fn expand(spec: &Spec) -> TokenStream {
    let site = Span::mixed_site();
    let private = spec.root.private(site);
    let Handler { outer, visibility, signature, .. } = &spec.handler;
    let (name, generics, conditions) =
        (&signature.ident, &signature.generics, &signature.generics.where_clause);
    let function = function(&spec.handler);
    let limits = limits(spec);
    let steps = steps(spec);
    quote_spanned! {site=>
        #(#outer)*
        #visibility async fn #name #generics (
            __rate_limit_request: #private::HttpRequest,
            __rate_limit_payload: #private::Payload,
        ) -> #private::HttpResponse #conditions {
            #function
            #limits
            #steps
        }
    }
}

/// The user's function, as it was written but for its visibility and the attributes of the wrapper.
fn function(handler: &Handler) -> TokenStream {
    let Handler { inner, signature, body, .. } = handler;
    quote!(#(#inner)* #signature #body)
}

/// The limits of the whole group, built by the compiler.
fn limits(spec: &Spec) -> TokenStream {
    let site = Span::mixed_site();
    let private = spec.root.private(site);
    let limits = spec.limits.iter().map(|limit| one_limit(&spec.root, limit));
    let count = Literal::usize_unsuffixed(spec.limits.len());
    quote_spanned!(site=> static __RATE_LIMIT_LIMITS: [#private::Limit; #count] = [#(#limits),*];)
}

fn one_limit(root: &Root, limit: &Limit) -> TokenStream {
    let key = match &limit.key {
        Key::Given(key) => text(key),
        Key::Function(name) => {
            let site = Span::mixed_site();
            quote_spanned!(site=> ::core::concat!(::core::module_path!(), "::", #name))
        }
    };
    let max = setter("max", limit.max.as_ref());
    let window = limit.window.as_ref().map(duration);
    let algorithm = limit.algorithm.and_then(|algorithm| variant(root, algorithm));
    let sub_windows = setter("sub_windows", limit.sub_windows.as_ref());
    let burst = setter("burst", limit.burst.as_ref());
    let name = limit.name.as_ref().map(|name| {
        let name = text(name);
        quote_spanned!(Span::mixed_site()=> .name(#name))
    });
    let by = identity(root, &limit.by);
    let cost = setter("cost", limit.cost.as_ref());

    // rustc reports a number that it finds wrong at the whole chain, from its first token to its last.
    let span = constant_span([&limit.max, &limit.sub_windows, &limit.burst]);
    let private = root.private(span);
    let policy = quote_spanned! {span=>
        #private::Policy::builder(#key) #max #window #algorithm #sub_windows #burst #name .build()
    };
    let span = constant_span([&limit.cost]);
    let private = root.private(span);
    quote_spanned!(span=> #private::Limit::new(#policy) #by #cost)
}

fn text(name: &Name) -> TokenStream {
    let mut literal = Literal::string(&name.text);
    literal.set_span(located(name.span));
    literal.into_token_stream()
}

/// `.name(number)`.
fn setter(name: &str, number: Option<&Number>) -> Option<TokenStream> {
    Some(match number? {
        Number::Literal { value, span } => {
            let span = located(*span);
            let name = Ident::new(name, span);
            let mut value = Literal::u64_suffixed(*value);
            value.set_span(span);
            quote_spanned!(span=> .#name(#value))
        }
        Number::Constant(constant) => {
            let span = located_at_start(constant);
            let name = Ident::new(name, span);
            quote_spanned!(span=> .#name(#constant))
        }
    })
}

fn duration(window: &Window) -> TokenStream {
    let span = located(window.span);
    let micros = Literal::u64_suffixed(window.micros);
    quote_spanned!(span=> .window(::core::time::Duration::from_micros(#micros)))
}

fn variant(root: &Root, algorithm: Algorithm) -> Option<TokenStream> {
    let site = Span::mixed_site();
    let private = root.private(site);
    let variant = match algorithm {
        Algorithm::SlidingWindowCounter => return None,
        Algorithm::FixedWindow => "FixedWindow",
        Algorithm::SlidingWindowLog => "SlidingWindowLog",
        Algorithm::TokenBucket => "TokenBucket",
    };
    let variant = Ident::new(variant, site);
    Some(quote_spanned!(site=> .algorithm(#private::Algorithm::#variant)))
}

/// The place of the only number that the compiler can still find wrong; literals have been checked. With several of
/// them it is the attribute, and the message has to name the culprit.
fn constant_span<'a>(numbers: impl IntoIterator<Item = &'a Option<Number>>) -> Span {
    let mut constants = numbers.into_iter().flatten().filter_map(|number| match number {
        Number::Constant(constant) => Some(located_at_start(constant)),
        Number::Literal { .. } => None,
    });
    match (constants.next(), constants.next()) {
        (Some(only), None) => only,
        _ => Span::mixed_site(),
    }
}

fn identity(root: &Root, by: &By) -> Option<TokenStream> {
    match by {
        By::Ip => None,
        By::Global => {
            let site = Span::mixed_site();
            let private = root.private(site);
            Some(quote_spanned!(site=> .by(#private::By::Global)))
        }
        // The closure and all in it stand at the user's path, so that a function that does not fit is reported there.
        By::Function(path) => {
            let span = located_at_start(path);
            let private = root.private(span);
            Some(quote_spanned! {span=>
                .by(#private::By::Function(|__rate_limit_request: &#private::HttpRequest| {
                    #private::IntoKey::into_key(#path(__rate_limit_request))
                }))
            })
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
    let private = spec.root.private(site);
    let checks = arguments.iter().map(|argument| {
        let extractor = &argument.extractor;
        let span = located_at_start(extractor);
        let private = spec.root.private(span);
        quote_spanned!(span=> #private::assert_extractor::<#extractor>();)
    });
    let names: Vec<Ident> = (0..arguments.len())
        .map(|index| format_ident!("__rate_limit_argument_{index}", span = site))
        .collect();
    let extraction = extraction(&spec.handler, arguments, &names);
    let mutable = (!arguments.is_empty()).then(|| quote!(mut));
    let respond = respond(&spec.handler, &names);
    quote_spanned! {site=>
        #(#checks)*
        let #mutable __rate_limit_pass = match #private::begin(
            __rate_limit_request,
            __rate_limit_payload,
            &__RATE_LIMIT_LIMITS,
        ).await {
            ::core::result::Result::Ok(__rate_limit_pass) => __rate_limit_pass,
            ::core::result::Result::Err(__rate_limit_denied) => return __rate_limit_denied,
        };
        #extraction
        #respond
    }
}

/// Stands at the handler's name: what rustc says about the tuple when one extractor is wrong, after the message of
/// `assert_extractor` about that one, points at no innocent argument.
fn extraction(handler: &Handler, arguments: &[&Argument], names: &[Ident]) -> Option<TokenStream> {
    if arguments.is_empty() {
        return None;
    }
    let span = located(handler.signature.ident.span());
    let extractors = arguments.iter().map(|argument| &argument.extractor);
    Some(quote_spanned! {span=>
        let (#(#names,)*) = match __rate_limit_pass.extract::<(#(#extractors,)*)>().await {
            ::core::result::Result::Ok(__rate_limit_arguments) => __rate_limit_arguments,
            ::core::result::Result::Err(__rate_limit_response) => return __rate_limit_response,
        };
    })
}

/// Stands at the return type: that is what is wrong when the value is not a `Responder`.
///
/// The function is taken as a value before it is called: that it has to be async without an `await` in it is then no
/// matter to `clippy::unused_async`, as with any handler that is given to a route.
fn respond(handler: &Handler, names: &[Ident]) -> TokenStream {
    let signature = &handler.signature;
    let span = match &signature.output {
        ReturnType::Default => located(signature.ident.span()),
        ReturnType::Type(_, returned) => located_at_start(returned),
    };
    let name = &signature.ident;
    let turbofish = handler.turbofish();
    quote_spanned! {span=>
        let __rate_limit_function = #name #turbofish;
        __rate_limit_pass.respond(__rate_limit_function(#(#names),*).await)
    }
}
