//! Writes out the constant part of the limits.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ExprPath;

use crate::bounds::is_name;
use crate::expand::closure_fn;
use crate::expand::paths::Facade;
use crate::kind::Kind;
use crate::parse::algorithm::Algorithm;
use crate::parse::by::By;
use crate::parse::calendar::{Anchor, AnchorDay, LimitWindow, Unit, WEEKDAYS};
use crate::parse::choice::{Count, Mode, OnError, OnMissing};
use crate::parse::name::Name;
use crate::parse::number::{Number, Units};
use crate::parse::request_fn::{Closure, Inputs};
use crate::parse::window::Window;
use crate::source_text;
use crate::span::{located, located_at_start};
use crate::validate::spec::{LimitSpec, PolicyKey, PolicySource, PolicySpec};

/// One limit of a handler.
pub(crate) fn expand(facade: Facade<'_>, limit: &LimitSpec) -> TokenStream {
    let start = match &limit.policy {
        PolicySource::Arguments(policy) => own_policy(facade, limit.kind, policy),
        PolicySource::Path(path) => shared_policy(facade, limit.kind, path),
    };
    let by = match &limit.by {
        By::Ip => None,
        by => {
            self::by(facade, by, Span::mixed_site()).map(|by| quote_spanned!(Span::mixed_site()=> .by(#by)))
        }
    };
    let on_missing = on_missing(facade, limit.on_missing);
    let cost = setter("cost", constant(limit.cost.as_ref()));
    let count = count(facade, &limit.count);
    let text = text(facade, limit);
    quote_spanned!(Span::mixed_site()=> #start #by #on_missing #cost #count #text)
}

/// What only the source says, unless it is the default.
fn text(facade: Facade<'_>, limit: &LimitSpec) -> Option<TokenStream> {
    let site = Span::mixed_site();
    let private = facade.private(site);
    let (by, count) = (limit.by.text(), count_text(&limit.count));
    let fields = [
        (!matches!(limit.by, By::Ip)).then(|| quote!(by: #by)),
        (!matches!(limit.count, Count::All)).then(|| quote!(count: #count)),
        limit.dynamic_cost().map(|_| quote!(has_dynamic_cost: true)),
        limit.skip.as_ref().map(|_| quote!(skips: true)),
        limit.plan.as_ref().map(|_| quote!(has_plan: true)),
    ];
    let fields: Vec<TokenStream> = fields.into_iter().flatten().collect();
    (!fields.is_empty()).then(|| {
        quote_spanned! {site=>
            .with_text(#private::SourceText { #(#fields,)* ..#private::SourceText::DEFAULT })
        }
    })
}

fn count_text(count: &Count) -> String {
    match count {
        Count::All => "all".to_owned(),
        Count::Failures => "failures".to_owned(),
        Count::Successes => "successes".to_owned(),
        Count::Closure(when) => source_text::of(when),
        Count::Function(when) => format!("with({})", source_text::of(when)),
    }
}

/// A limit whose policy is at `path`. Spanned there: a value of another type is reported there.
fn shared_policy(facade: Facade<'_>, kind: Kind, path: &ExprPath) -> TokenStream {
    let span = located_at_start(path);
    let private = facade.private(span);
    let constructor = match kind {
        Kind::Rate => Ident::new("shared", span),
        Kind::Concurrency => Ident::new("shared_concurrency", span),
    };
    quote_spanned!(span=> #private::HandlerLimit::#constructor(const { &#path }))
}

/// A limit whose policy is in the arguments.
fn own_policy(facade: Facade<'_>, kind: Kind, policy: &PolicySpec) -> TokenStream {
    let key = match &policy.key {
        PolicyKey::Given(key) => string_literal(key),
        PolicyKey::Default(name) => {
            let site = Span::mixed_site();
            let private = facade.private(site);
            quote_spanned! {site=>
                #private::DefaultKey::new(::core::concat!(::core::module_path!(), "::", #name)).as_str()
            }
        }
    };
    let max = setter("max", constant(policy.max.as_ref()));
    let window = policy.window.as_ref().map(|window| match window {
        LimitWindow::Length(window) => duration("window", window),
        LimitWindow::Calendar(unit, span) => calendar(facade, *unit, *span, policy),
    });
    let algorithm = match kind {
        Kind::Rate => policy.algorithm.and_then(|algorithm| self::algorithm(facade, algorithm)),
        Kind::Concurrency => Some(variant_setter(facade, "algorithm", "Algorithm", "Concurrency")),
    };
    let sub_windows = setter("sub_windows", policy.sub_windows.as_ref());
    let burst = setter("burst", policy.burst.as_ref());
    let name = policy.name.as_ref().map(|name| {
        let name = string_literal(name);
        quote_spanned!(Span::mixed_site()=> .name(#name))
    });
    // Clients do not see the module path.
    let shown = match &policy.key {
        PolicyKey::Default(function) if policy.name.is_none() => {
            let site = Span::mixed_site();
            let private = facade.private(site);
            // Nearly every name is a key as it is: what the compiler need not compute.
            Some(if is_name(function) {
                quote_spanned!(site=> .with_public_name(#function))
            } else {
                quote_spanned!(site=> .with_public_name(#private::DefaultKey::new(#function).as_str()))
            })
        }
        _ => None,
    };
    let on_error = on_error(facade, policy.on_error);
    let block = policy.block.as_ref().map(|block| duration("block", block));
    let mode = match policy.mode {
        Mode::Enforce => None,
        Mode::Shadow => Some(variant_setter(facade, "mode", "Mode", "Shadow")),
    };
    let lease = policy.lease.as_ref().map(|lease| duration("lease", lease));

    // rustc reports a wrong number at the whole chain, from its first token to its last.
    let span =
        constant_span([constant(policy.max.as_ref()), policy.sub_windows.as_ref(), policy.burst.as_ref()]);
    let private = facade.private(span);
    let rule = quote_spanned! {span=>
        #private::Policy::builder(#key) #max #window #algorithm #sub_windows #burst #name #on_error #block #mode #lease
    };
    let limit = match (policy.dynamic_max().is_some(), policy.dynamic_anchor().is_some()) {
        (false, false) => quote_spanned!(span=> #private::HandlerLimit::new(#rule.build())),
        (max, anchor) => quote_spanned! {span=>
            #private::HandlerLimit::with_computed(#rule, #private::Computed { max: #max, anchor: #anchor })
        },
    };
    quote_spanned!(Span::mixed_site()=> #limit #shown)
}

/// The number, unless it is chosen per request.
fn constant(units: Option<&Units>) -> Option<&Number> {
    match units? {
        Units::Fixed(number) => Some(number),
        Units::PerRequest(_) => None,
    }
}

fn string_literal(name: &Name) -> TokenStream {
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

/// `.name(duration)`.
fn duration(name: &str, window: &Window) -> TokenStream {
    let span = located(window.span);
    let name = Ident::new(name, span);
    let micros = Literal::u64_suffixed(window.micros);
    quote_spanned!(span=> .#name(::core::time::Duration::from_micros(#micros)))
}

/// `.calendar(Calendar::month(15).in_zone("Europe/Berlin"))`; from the first day if that is chosen per request.
fn calendar(facade: Facade<'_>, unit: Unit, span: Span, policy: &PolicySpec) -> TokenStream {
    let span = located(span);
    let private = facade.private(span);
    let days = match (unit, policy.anchor.as_ref().and_then(Anchor::fixed)) {
        (Unit::Day, _) => quote_spanned!(span=> day()),
        (Unit::Week, day) => {
            let index = if let Some(AnchorDay::Week(index)) = day { index } else { 0 };
            let day = Ident::new(WEEKDAYS[index].1, span);
            quote_spanned!(span=> week(#private::Weekday::#day))
        }
        (Unit::Month, day) => {
            let day = if let Some(AnchorDay::Month(day)) = day { day } else { 1 };
            quote_spanned!(span=> month(#day))
        }
        (Unit::Year, day) => {
            let (month, day) =
                if let Some(AnchorDay::Year(month, day)) = day { (month, day) } else { (1, 1) };
            quote_spanned!(span=> year(#month, #day))
        }
    };
    let calendar = calendar_of(facade, &days, span, policy);
    quote_spanned!(span=> .calendar(#calendar))
}

/// `Calendar::month(15).in_zone("Europe/Berlin")`, where `days` is the part before the zone.
pub(crate) fn calendar_of(
    facade: Facade<'_>,
    days: &TokenStream,
    span: Span,
    policy: &PolicySpec,
) -> TokenStream {
    let private = facade.private(span);
    let zone = policy.zone.as_ref().map(|zone| {
        let mut name = Literal::string(&zone.text);
        name.set_span(located(zone.span));
        quote_spanned!(span=> .in_zone(#name))
    });
    quote_spanned!(span=> #private::Calendar::#days #zone)
}

/// `.setter(Type::Variant)`.
fn variant_setter(facade: Facade<'_>, setter: &str, ty: &str, variant: &str) -> TokenStream {
    let site = Span::mixed_site();
    let private = facade.private(site);
    let (setter, ty, variant) = (Ident::new(setter, site), Ident::new(ty, site), Ident::new(variant, site));
    quote_spanned!(site=> .#setter(#private::#ty::#variant))
}

fn algorithm(facade: Facade<'_>, algorithm: &Algorithm) -> Option<TokenStream> {
    (!algorithm.is_default()).then(|| variant_setter(facade, "algorithm", "Algorithm", algorithm.variant))
}

/// The span of the only const expression among `numbers`. Literals have been checked, so only a const expression can
/// still be wrong. With several of them it is the span of the attribute, and the message names the wrong one.
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

/// The caller, if it is constant.
pub(crate) fn by(facade: Facade<'_>, by: &By, span: Span) -> Option<TokenStream> {
    let private = facade.private(span);
    Some(match by {
        By::Ip => quote_spanned!(span=> #private::By::Ip),
        By::Global => quote_spanned!(span=> #private::By::Global),
        By::Path(parameter) => {
            let name = &parameter.name;
            quote_spanned!(span=> #private::By::Path(#name))
        }
        By::Header(name) => quote_spanned!(span=> #private::By::Header(#name)),
        // Spanned at the user's path: an unsuitable function is reported there.
        By::Function(path) => {
            let span = located_at_start(path);
            let private = facade.private(span);
            quote_spanned! {span=>
                #private::By::Function(|__rate_limit_request: &#private::HttpRequest| {
                    #private::IntoCaller::into_caller(#path(__rate_limit_request))
                })
            }
        }
        By::Closure(closure @ Closure { asyncness: None, inputs: Inputs::Request(input), .. }) => {
            let span = located_at_start(&closure.body);
            let private = facade.private(span);
            let (name, function) = closure_fn::function_to(facade, closure, &Ident::new("IntoCaller", span));
            // Spanned at the type: a type other than the request's is reported there.
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
            let parts = parts.iter().map(|part| self::by(facade, part, span)).collect::<Option<Vec<_>>>()?;
            quote_spanned!(span=> #private::By::Parts(const { &[#(#parts),*] }))
        }
    })
}

fn on_error(facade: Facade<'_>, on_error: OnError) -> Option<TokenStream> {
    let variant = match on_error {
        OnError::Local => return None,
        OnError::Deny => "Deny",
        OnError::Allow => "Allow",
    };
    Some(variant_setter(facade, "on_error", "OnError", variant))
}

fn on_missing(facade: Facade<'_>, on_missing: OnMissing) -> Option<TokenStream> {
    let variant = match on_missing {
        OnMissing::Reject => return None,
        OnMissing::Skip => "Skip",
        OnMissing::Anonymous => "Anonymous",
    };
    Some(variant_setter(facade, "on_missing", "OnMissing", variant))
}

fn count(facade: Facade<'_>, count: &Count) -> Option<TokenStream> {
    let span = match count {
        Count::Closure(when) | Count::Function(when) => located_at_start(when),
        _ => Span::mixed_site(),
    };
    let private = facade.private(span);
    let count = match count {
        Count::All => return None,
        Count::Failures => quote_spanned!(span=> Failures),
        Count::Successes => quote_spanned!(span=> Successes),
        Count::Closure(when) | Count::Function(when) => quote_spanned!(span=> When(#when)),
    };
    Some(quote_spanned!(span=> .count(#private::Count::#count)))
}
