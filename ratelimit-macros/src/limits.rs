//! Writes limits out as constants, and what the list of all limits says about them.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use crate::algorithm::Algorithm;
use crate::by::By;
use crate::code;
use crate::handler::Handler;
use crate::name::Name;
use crate::number::{Number, Units};
use crate::paths::{Root, located, located_at_start};
use crate::source::{Closure, Inputs};
use crate::text;
use crate::validate::{Key, Limit, Spec};
use crate::value::{Count, OnError, OnMissing, Window};

/// The limits of the whole group, built by the compiler.
pub(crate) fn all(spec: &Spec) -> TokenStream {
    let site = Span::mixed_site();
    let private = spec.root.private(site);
    let limits = spec.limits.iter().map(|limit| one_limit(&spec.root, limit));
    let count = Literal::usize_unsuffixed(spec.limits.len());
    quote_spanned!(site=> static __RATE_LIMIT_LIMITS: [#private::HandlerLimit; #count] = [#(#limits),*];)
}

fn one_limit(root: &Root, limit: &Limit) -> TokenStream {
    let key = match &limit.key {
        Key::Given(key) => quoted(key),
        Key::Function(name) => {
            let site = Span::mixed_site();
            let private = root.private(site);
            quote_spanned! {site=>
                const { &#private::DefaultKey::new(::core::concat!(::core::module_path!(), "::", #name)) }.as_str()
            }
        }
    };
    let max = setter("max", fixed(limit.max.as_ref()));
    let window = limit.window.as_ref().map(duration);
    let algorithm = limit.algorithm.and_then(|algorithm| variant(root, algorithm));
    let sub_windows = setter("sub_windows", limit.sub_windows.as_ref());
    let burst = setter("burst", limit.burst.as_ref());
    let name = limit.name.as_ref().map(|name| {
        let name = quoted(name);
        quote_spanned!(Span::mixed_site()=> .name(#name))
    });
    // Clients need not know where the function stands.
    let shown = match &limit.key {
        Key::Function(function) if limit.name.is_none() => {
            let site = Span::mixed_site();
            let private = root.private(site);
            Some(quote_spanned! {site=>
                .with_public_name(const { &#private::DefaultKey::new(#function) }.as_str())
            })
        }
        _ => None,
    };
    let by = match &limit.by {
        By::Ip => None,
        by => self::by(root, by, Span::mixed_site()).map(|by| quote_spanned!(Span::mixed_site()=> .by(#by))),
    };
    let on_error = on_error(root, limit.on_error);
    let on_missing = on_missing(root, limit.on_missing);
    let cost = setter("cost", fixed(limit.cost.as_ref()));
    let count = count(root, &limit.count);

    // rustc reports a number that it finds wrong at the whole chain, from its first token to its last.
    let span = constant_span([fixed(limit.max.as_ref()), limit.sub_windows.as_ref(), limit.burst.as_ref()]);
    let private = root.private(span);
    let rule = quote_spanned! {span=>
        #private::Policy::builder(#key) #max #window #algorithm #sub_windows #burst #name #on_error
    };
    let limit = if matches!(limit.max, Some(Units::Chosen(_))) {
        quote_spanned!(span=> #private::HandlerLimit::with_dynamic_max(#rule))
    } else {
        quote_spanned!(span=> #private::HandlerLimit::new(#rule.build()))
    };
    quote_spanned!(Span::mixed_site()=> #limit #by #on_missing #cost #count #shown)
}

/// The number, if it is constant.
fn fixed(units: Option<&Units>) -> Option<&Number> {
    match units? {
        Units::Fixed(number) => Some(number),
        Units::Chosen(_) => None,
    }
}

fn quoted(name: &Name) -> TokenStream {
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
fn constant_span<'a>(numbers: impl IntoIterator<Item = Option<&'a Number>>) -> Span {
    let mut constants = numbers.into_iter().flatten().filter_map(|number| match number {
        Number::Constant(constant) => Some(located_at_start(constant)),
        Number::Literal { .. } => None,
    });
    match (constants.next(), constants.next()) {
        (Some(only), None) => only,
        _ => Span::mixed_site(),
    }
}

/// Who is limited, as far as that is constant.
pub(crate) fn by(root: &Root, by: &By, span: Span) -> Option<TokenStream> {
    let private = root.private(span);
    Some(match by {
        By::Ip => quote_spanned!(span=> #private::By::Ip),
        By::Global => quote_spanned!(span=> #private::By::Global),
        By::Path(parameter) => {
            let name = &parameter.name;
            quote_spanned!(span=> #private::By::Path(#name))
        }
        By::Header(name) => quote_spanned!(span=> #private::By::Header(#name)),
        // The closure and all in it stand at the user's path, so that a function that does not fit is reported there.
        By::Function(path) => {
            let span = located_at_start(path);
            let private = root.private(span);
            quote_spanned! {span=>
                #private::By::Function(|__rate_limit_request: &#private::HttpRequest| {
                    #private::IntoCaller::into_caller(#path(__rate_limit_request))
                })
            }
        }
        By::Closure(closure @ Closure { asyncness: None, inputs: Inputs::Request(input), .. }) => {
            let span = located_at_start(&closure.body);
            let private = root.private(span);
            let (name, function) = code::key_function(root, closure);
            // At the type: that is what is wrong when it is another than the request's.
            let request = Ident::new("__rate_limit_request", located_at_start(&input.ty));
            quote_spanned! {span=>
                #private::By::Function(|__rate_limit_request: &#private::HttpRequest| {
                    #function
                    #private::IntoCaller::into_caller(#name(#request))
                })
            }
        }
        By::Closure(_) => return None,
        By::Parts(parts) => {
            let parts = parts.iter().map(|part| self::by(root, part, span)).collect::<Option<Vec<_>>>()?;
            quote_spanned!(span=> #private::By::Parts(const { &[#(#parts),*] }))
        }
    })
}

fn on_error(root: &Root, on_error: OnError) -> Option<TokenStream> {
    let span = Span::mixed_site();
    let private = root.private(span);
    let variant = match on_error {
        OnError::Local => return None,
        OnError::Deny => "Deny",
        OnError::Allow => "Allow",
    };
    let variant = Ident::new(variant, span);
    Some(quote_spanned!(span=> .on_error(#private::OnError::#variant)))
}

fn on_missing(root: &Root, on_missing: OnMissing) -> Option<TokenStream> {
    let span = Span::mixed_site();
    let private = root.private(span);
    let variant = match on_missing {
        OnMissing::Reject => return None,
        OnMissing::Skip => "Skip",
        OnMissing::Anonymous => "Anonymous",
    };
    let variant = Ident::new(variant, span);
    Some(quote_spanned!(span=> .on_missing(#private::OnMissing::#variant)))
}

fn count(root: &Root, count: &Count) -> Option<TokenStream> {
    let span = match count {
        Count::Closure(when) | Count::Function(when) => located_at_start(when),
        _ => Span::mixed_site(),
    };
    let private = root.private(span);
    let count = match count {
        Count::All => return None,
        Count::Failures => quote_spanned!(span=> Failures),
        Count::Successes => quote_spanned!(span=> Successes),
        Count::Closure(when) | Count::Function(when) => quote_spanned!(span=> When(#when)),
    };
    Some(quote_spanned!(span=> .count(#private::Count::#count)))
}

/// Hands the limits in for the list of all limits in the program.
pub(crate) fn declaration(spec: &Spec) -> TokenStream {
    let Spec { root, handler, limits } = spec;
    let span = Span::mixed_site();
    let private = root.private(span);
    let texts = limits.iter().map(|limit| {
        let by = limit.by.text();
        let count = count_text(&limit.count);
        let chooses_cost = matches!(limit.cost, Some(Units::Chosen(_)));
        let skips = limit.skip.is_some();
        quote_spanned! {span=>
            #private::SourceText { by: #by, count: #count, has_dynamic_cost: #chooses_cost, skips: #skips }
        }
    });
    let name = handler.path();
    let line = line(handler);
    quote_spanned! {span=>
        #private::inventory::submit! {
            #private::Declaration {
                handler: #name,
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: #line,
                limits: &__RATE_LIMIT_LIMITS,
                texts: &[#(#texts),*],
            }
        }
    }
}

/// The line of the handler's name: at the user's own place, since elsewhere it would be the attribute's.
fn line(handler: &Handler) -> TokenStream {
    quote_spanned!(handler.signature.ident.span()=> ::core::line!())
}

fn count_text(count: &Count) -> String {
    match count {
        Count::All => "all".to_owned(),
        Count::Failures => "failures".to_owned(),
        Count::Successes => "successes".to_owned(),
        Count::Closure(when) => text::of(when),
        Count::Function(when) => format!("with({})", text::of(when)),
    }
}
