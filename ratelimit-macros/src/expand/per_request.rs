//! Writes out code that runs for each request as a function in the `static` of the limits.

use std::slice;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::diagnostics::located_at_start;
use crate::expand::paths::Facade;
use crate::parse::calendar::CalendarUnit;
use crate::parse::request_fn::{Closure, Input, Inputs, RequestFn};

/// What the code returns.
#[derive(Clone, Copy)]
pub(crate) enum Returned {
    /// A primitive type. It is named by path, because a type of the user may have the same name.
    Primitive(&'static str),
    /// The day on which windows of a calendar begin.
    Day(CalendarUnit),
    /// What implements a trait of the facade, and is converted by its method.
    Into { bound: &'static str, method: &'static str },
}

pub(crate) const CALLER: Returned = Returned::Into { bound: "IntoCaller", method: "into_caller" };
pub(crate) const PLAN: Returned = Returned::Into { bound: "IntoPlan", method: "into_plan" };

impl Returned {
    fn ty(self, facade: Facade<'_>, span: Span) -> TokenStream {
        let private = facade.private(span);
        let primitive = |name| {
            let name = Ident::new(name, span);
            quote_spanned!(span=> ::core::primitive::#name)
        };
        match self {
            Self::Primitive(name) => primitive(name),
            Self::Day(CalendarUnit::Week) => quote_spanned!(span=> #private::Weekday),
            Self::Day(CalendarUnit::Year) => {
                let day = primitive("u8");
                quote_spanned!(span=> (#day, #day))
            }
            Self::Day(CalendarUnit::Day | CalendarUnit::Month) => primitive("u8"),
            Self::Into { bound, .. } => {
                let bound = Ident::new(bound, span);
                quote_spanned!(span=> impl #private::#bound)
            }
        }
    }

    /// The function from what the code returns to the value.
    fn conversion(self, facade: Facade<'_>, span: Span) -> TokenStream {
        let private = facade.private(span);
        let (ty, method) = match self {
            Self::Primitive(_) => return quote_spanned!(span=> ::core::convert::identity),
            Self::Day(CalendarUnit::Week) => ("Calendar", "week"),
            // A window of a day has no anchor; the attribute is rejected before.
            Self::Day(CalendarUnit::Day | CalendarUnit::Month) => ("Calendar", "month"),
            Self::Day(CalendarUnit::Year) => return quote_spanned!(span=> #private::calendar_year),
            Self::Into { bound, method } => (bound, method),
        };
        let (ty, method) = (Ident::new(ty, span), Ident::new(method, span));
        quote_spanned!(span=> #private::#ty::#method)
    }

    fn convert(self, facade: Facade<'_>, span: Span, value: TokenStream) -> TokenStream {
        if let Self::Primitive(_) = self {
            return value;
        }
        let conversion = self.conversion(facade, span);
        quote_spanned!(span=> #conversion(#value))
    }
}

/// `PerRequest::Now(..)` or `PerRequest::Later(..)`.
pub(crate) fn value(facade: Facade<'_>, function: &RequestFn, returned: Returned) -> TokenStream {
    match function {
        RequestFn::Closure(closure) => self::closure(facade, "PerRequest", closure, returned),
        RequestFn::Path(path) => self::path(facade, "PerRequest", path, returned),
        // Spanned at the user's path: an unsuitable function is reported there.
        RequestFn::With(path) => {
            let span = located_at_start(path);
            let ty = returned.ty(facade, span);
            later(facade, "PerRequest", span, &call(facade, span, &ty, &quote!(_), path, returned))
        }
    }
}

/// A `fn(&HttpRequest) -> R`. Spanned at the user's path: an unsuitable function is reported there.
pub(crate) fn path(facade: Facade<'_>, kind: &str, path: &syn::ExprPath, returned: Returned) -> TokenStream {
    let span = located_at_start(path);
    now(
        facade,
        kind,
        span,
        &returned.convert(facade, span, quote_spanned!(span=> #path(__rate_limit_request))),
    )
}

/// A closure, written out as a function, which may return a borrow of the request.
pub(crate) fn closure(facade: Facade<'_>, kind: &str, closure: &Closure, returned: Returned) -> TokenStream {
    let span = located_at_start(&closure.body);
    let (name, function) = function(facade, closure, returned);
    let convert = |value| returned.convert(facade, span, value);
    let inputs = match &closure.inputs {
        Inputs::Request(input) => {
            // Spanned at the type: a type other than the request's is reported there.
            let at = located_at_start(&input.ty);
            if closure.is_immediate() {
                let request = Ident::new("__rate_limit_request", at);
                let value = convert(quote_spanned!(span=> #name(#request)));
                return now(facade, kind, span, &quote!(#function #value));
            }
            let request = quote_spanned!(at=> __rate_limit_extracted.request());
            let value = convert(quote_spanned!(span=> __rate_limit_function(#request).await));
            return later(facade, kind, span, &block(facade, span, &called(span, &name, &function, &value)));
        }
        Inputs::Extractors(inputs) => inputs,
    };
    let checks = inputs.iter().map(|Input { ty, shared, .. }| {
        let ty = shared.as_ref().unwrap_or(ty);
        let span = located_at_start(ty);
        let private = facade.private(span);
        quote_spanned!(span=> #private::assert_bodyless_extractor::<#ty>();)
    });
    if inputs.len() <= MAX_FORM && inputs.iter().all(|input| input.shared.is_none()) {
        let form = if closure.asyncness.is_some() { "TakesExtractorsAsync" } else { "TakesExtractors" };
        let (private, form) = (facade.private(span), Ident::new(form, span));
        let types = inputs.iter().map(|input| &input.ty);
        let form = quote_spanned!(span=> #private::#form<(#(#types,)*)>);
        let call = call(facade, span, &quote!(_), &form, &name, returned);
        return later(facade, kind, span, &quote!(#function #(#checks)* #call));
    }
    let name_of = |index| Ident::new(&format!("__rate_limit_choice_{index}"), span);
    let names: Vec<Ident> = (0..inputs.len()).map(name_of).collect();
    let with_names = || inputs.iter().zip(&names);
    let shared = with_names()
        .filter_map(|(input, name)| Some((input.shared.as_ref()?, name)))
        .map(|(ty, name)| quote_spanned!(span=> let #name = __rate_limit_extracted.share::<#ty>().await?;));
    let (types, owned): (Vec<_>, Vec<_>) = with_names()
        .filter(|(input, _)| input.shared.is_none())
        .map(|(input, name)| (&input.ty, name))
        .unzip();
    let owned = (!types.is_empty()).then(|| {
        quote_spanned!(span=> let (#(#owned,)*) = __rate_limit_extracted.extract::<(#(#types,)*)>().await?;)
    });
    let arguments = with_names().map(|(input, name)| {
        let reference = input.shared.as_ref().map(|_| quote_spanned!(span=> &));
        quote_spanned!(span=> #reference #name)
    });
    let wait = closure.asyncness.map(|_| quote_spanned!(span=> .await));
    let value = convert(quote_spanned!(span=> __rate_limit_function(#(#arguments),*) #wait));
    let called = called(span, &name, &function, &quote!(#(#checks)* #(#shared)* #owned #value));
    later(facade, kind, span, &block(facade, span, &called))
}

/// Largest number of extractors of which the facade knows the form of a function over them.
const MAX_FORM: usize = 8;

/// Calls a function in one of the forms that the facade knows: the compiler has less to check than in
/// [`block`].
fn call(
    facade: Facade<'_>,
    span: Span,
    ty: &TokenStream,
    form: &TokenStream,
    function: &impl ToTokens,
    returned: Returned,
) -> TokenStream {
    let (private, conversion) = (facade.private(span), returned.conversion(facade, span));
    quote_spanned! {span=>
        #private::later_call::<#ty, _, #form, _>(__rate_limit_extracted, #function, #conversion)
    }
}

/// Code with an `await`, which may borrow from what it takes by reference.
fn block(facade: Facade<'_>, span: Span, value: &TokenStream) -> TokenStream {
    let private = facade.private(span);
    quote_spanned! {span=>
        #private::later(async move {
            ::core::result::Result::Ok({ #value })
        })
    }
}

/// The function is taken as a value before the call, because `clippy::unused_async` ignores functions that
/// are used as values.
fn called(span: Span, name: &Ident, function: &TokenStream, value: &TokenStream) -> TokenStream {
    quote_spanned! {span=>
        #function
        let __rate_limit_function = #name;
        #value
    }
}

fn now(facade: Facade<'_>, kind: &str, span: Span, value: &TokenStream) -> TokenStream {
    let (private, kind) = (facade.private(span), Ident::new(kind, span));
    quote_spanned!(span=> #private::#kind::Now(|__rate_limit_request: &#private::HttpRequest| { #value }))
}

fn later(facade: Facade<'_>, kind: &str, span: Span, value: &TokenStream) -> TokenStream {
    let (private, kind) = (facade.private(span), Ident::new(kind, span));
    quote_spanned!(span=> #private::#kind::Later(|__rate_limit_extracted| { #value }))
}

/// The function of a closure, with the closure's own return type or else that of the value, and its name.
///
/// Actix-web makes a unit struct of a handler with a route attribute. A parameter of the same name would be a
/// pattern of that struct. A nested function of the same name hides the struct, and a parameter may shadow a
/// function.
fn function(facade: Facade<'_>, closure: &Closure, returned: Returned) -> (Ident, TokenStream) {
    let span = located_at_start(&closure.body);
    let name = Ident::new("__rate_limit_chosen", span);
    let Closure { asyncness, inputs, output, body, .. } = closure;
    let returned = output.clone().unwrap_or_else(|| {
        let ty = returned.ty(facade, span);
        match (inputs, returned) {
            (Inputs::Request(_), Returned::Into { .. }) => quote_spanned!(span=> #ty + '_),
            _ => ty,
        }
    });
    let inputs = match inputs {
        Inputs::Request(input) => slice::from_ref(&**input),
        Inputs::Extractors(inputs) => inputs,
    };
    let parameters = inputs.iter().map(|Input { pattern, ty, .. }| quote!(#pattern: #ty));
    let shadows = inputs.iter().flat_map(|input| &input.names).map(|name| {
        // Used at once: dead code would be reported.
        quote_spanned!(span=> const fn #name() {} const _: fn() = #name;)
    });
    let function = quote_spanned! {span=>
        #(#shadows)*
        #asyncness fn #name(#(#parameters),*) -> #returned #body
    };
    (name, function)
}
