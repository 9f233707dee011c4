//! Writes out the values that are chosen per request, limit by limit, before the limits are checked.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;

use crate::diagnostics::located_at_start;
use crate::expand::closure_fn;
use crate::expand::limits;
use crate::expand::paths::Facade;
use crate::parse::args::{Args, value_of};
use crate::parse::by::By;
use crate::parse::calendar::{Anchor, CalendarUnit};
use crate::parse::number::Number;
use crate::parse::request_fn::{Closure, RequestFn};
use crate::validate::spec::HandlerSpec;

/// The per-request values of all limits, if there are any, and the call that checks the limits.
pub(crate) fn expand(spec: &HandlerSpec) -> (Option<TokenStream>, TokenStream) {
    let site = Span::mixed_site();
    let facade = Facade::of(spec);
    let private = facade.private(site);
    let each = spec.limits.iter().enumerate();
    let values: Vec<TokenStream> =
        each.flat_map(|(position, limit)| per_request_values(facade, position, limit)).collect();
    if values.is_empty() {
        let decision = quote_spanned! {site=>
            #private::admit(
                __rate_limit_request,
                __rate_limit_payload,
                &__RATE_LIMIT.limits,
            )
        };
        return (None, decision);
    }
    let values = quote_spanned! {site=>
        let mut __rate_limit_group = #private::DynamicLimits::new(
            __rate_limit_request,
            __rate_limit_payload,
            &__RATE_LIMIT.limits,
        );
        #(#values)*
    };
    (Some(values), quote_spanned!(site=> __rate_limit_group.admit()))
}

/// The values of one limit. `skip` comes first: a skipped limit needs no other value.
fn per_request_values(facade: Facade<'_>, position: usize, limit: &Args) -> Vec<TokenStream> {
    let mut values = Vec::new();
    let failed = |span| failed(position, span);
    if let Some(skip) = value_of(limit.skip.as_ref()) {
        let value = value(facade, skip, primitive("bool"), failed);
        values.push(assignment(position, "skip", skip.can_fail(), &value));
    }
    if let Some(by) = limit.caller().filter(|by| !by.is_immediate()) {
        values.push(assignment(position, "by", by.can_fail(), &caller(facade, by, failed)));
    }
    if let Some(plan) = value_of(limit.plan.as_ref()) {
        values.push(assignment(position, "plan", plan.can_fail(), &self::plan(facade, plan, failed)));
    }
    if let Some(anchor) = value_of(limit.anchor.as_ref()).and_then(Anchor::per_request) {
        let (setter, returned) = anchor_type(facade, limit);
        let value = value(facade, anchor, returned, failed);
        values.push(assignment(position, setter, anchor.can_fail(), &value));
    }
    for (setter, units) in [("max", limit.max.as_ref()), ("cost", limit.cost.as_ref())] {
        if let Some(function) = value_of(units).and_then(Number::per_request) {
            let value = value(facade, function, primitive("u64"), failed);
            values.push(assignment(position, setter, function.can_fail(), &value));
        }
    }
    values
}

/// Computes a value and passes it on. A value that fails leaves the block instead.
fn assignment(position: usize, setter: &str, can_fail: bool, value: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    let position = Literal::usize_unsuffixed(position);
    let setter = Ident::new(setter, site);
    let mut assignment = quote_spanned! {site=>
        let __rate_limit_value = #value;
        __rate_limit_group.#setter(#position, __rate_limit_value);
    };
    if can_fail {
        assignment = quote_spanned!(site=> '__rate_limit_value: { #assignment });
    }
    quote_spanned! {site=>
        if __rate_limit_group.applies(#position) {
            #assignment
        }
    }
}

/// The arm for a value that cannot be computed: its limit is left out, and the error is the response in the
/// end.
fn failed(position: usize, span: Span) -> TokenStream {
    let position = Literal::usize_unsuffixed(position);
    quote_spanned! {span=>
        ::core::result::Result::Err(__rate_limit_error) => {
            __rate_limit_group.fail(#position, &__rate_limit_error);
            break '__rate_limit_value
        }
    }
}

/// A primitive type. It is named by path, because a type of the user may have the same name.
fn primitive(name: &str) -> impl Fn(Span) -> TokenStream {
    move |span| {
        let name = Ident::new(name, span);
        quote_spanned!(span=> ::core::primitive::#name)
    }
}

/// A value of the type `returned`.
fn value(
    facade: Facade<'_>,
    function: &RequestFn,
    returned: impl Fn(Span) -> TokenStream,
    failed: impl Fn(Span) -> TokenStream,
) -> TokenStream {
    match function {
        RequestFn::Closure(closure) => {
            let span = located_at_start(&closure.body);
            let function = closure_fn::function(closure, &returned(span));
            closure_fn::call(facade, closure, function, |value| value, &failed(span))
        }
        // Spanned at the user's path: an unsuitable function is reported there.
        RequestFn::Function { path, .. } => {
            let span = located_at_start(path);
            let (returned, failed) = (returned(span), failed(span));
            quote_spanned! {span=>
                match __rate_limit_group.call::<#returned, _, _>(#path).await {
                    ::core::result::Result::Ok(__rate_limit_value) => __rate_limit_value,
                    #failed
                }
            }
        }
    }
}

/// The setter of the day on which windows begin, and the type of its value. Without a calendar window the
/// attribute is rejected before.
fn anchor_type(facade: Facade<'_>, limit: &Args) -> (&'static str, impl Fn(Span) -> TokenStream) {
    let unit = limit.calendar_unit();
    let setter = match unit {
        Some(CalendarUnit::Week) => "week",
        Some(CalendarUnit::Year) => "year",
        _ => "month",
    };
    let day = primitive("u8");
    let returned = move |span| match unit {
        Some(CalendarUnit::Week) => {
            let private = facade.private(span);
            quote_spanned!(span=> #private::Weekday)
        }
        Some(CalendarUnit::Year) => {
            let day = day(span);
            quote_spanned!(span=> (#day, #day))
        }
        _ => day(span),
    };
    (setter, returned)
}

/// The name of a plan.
fn plan(facade: Facade<'_>, plan: &RequestFn, failed: impl Fn(Span) -> TokenStream) -> TokenStream {
    match plan {
        RequestFn::Closure(closure) => converted(facade, closure, ("IntoPlan", "into_plan"), failed),
        // Spanned at the user's path: an unsuitable function is reported there.
        RequestFn::Function { path, .. } => {
            let span = located_at_start(path);
            let private = facade.private(span);
            quote_spanned!(span=> #private::IntoPlan::into_plan(#path(__rate_limit_group.request())))
        }
    }
}

/// The value of a closure that returns what implements a trait of the facade, converted by its method.
fn converted(
    facade: Facade<'_>,
    closure: &Closure,
    (bound, method): (&str, &str),
    failed: impl Fn(Span) -> TokenStream,
) -> TokenStream {
    let span = located_at_start(&closure.body);
    let private = facade.private(span);
    let (bound, method) = (Ident::new(bound, span), Ident::new(method, span));
    let function = closure_fn::function_to(facade, closure, &bound);
    let convert = |value| quote_spanned!(span=> #private::#bound::#method(#value));
    closure_fn::call(facade, closure, function, convert, &failed(span))
}

/// A caller, or a part of one that is not constant: one that needs extractors or an `await`.
fn caller(facade: Facade<'_>, by: &By, failed: impl Fn(Span) -> TokenStream + Copy) -> TokenStream {
    let site = Span::mixed_site();
    let private = facade.private(site);
    match (limits::by(facade, by, site), by) {
        (Some(part), _) => quote_spanned!(site=> __rate_limit_group.part(#part)),
        (None, By::Closure(closure)) => converted(facade, closure, ("IntoCaller", "into_caller"), failed),
        (None, tuple) => {
            let parts = tuple.parts().iter().map(|part| caller(facade, part, failed));
            quote_spanned!(site=> #private::join([#(#parts),*]))
        }
    }
}
