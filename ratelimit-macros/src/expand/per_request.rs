//! Expands the closures and functions in arguments, which run for each request, into functions in the
//! `static` of the limits.

use std::slice;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ExprPath;

use crate::diagnostics::located_at_start;
use crate::expand::paths::Facade;
use crate::parse::code::request_fn::{Closure, Input, Inputs, RequestFn};
use crate::parse::values::calendar::CalendarUnit;

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
            // A window of a day has no anchor: `validate` rejects the attribute.
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

/// Expands the code of an argument into `PerRequest::Now(..)` or `PerRequest::Later(..)`.
pub(crate) fn value(facade: Facade<'_>, function: &RequestFn, returned: Returned) -> TokenStream {
    match function {
        RequestFn::Closure(closure) => expand_closure(facade, "PerRequest", closure, returned),
        RequestFn::Path(path) => expand_path(facade, "PerRequest", path, returned),
        RequestFn::With(path) => {
            let code = Code { facade, kind: "PerRequest", returned, span: located_at_start(path) };
            let ty = returned.ty(facade, code.span);
            code.later(&code.call_known_form(&ty, &quote!(_), path))
        }
    }
}

/// Expands the path of a `fn(&HttpRequest) -> R`.
pub(crate) fn expand_path(
    facade: Facade<'_>,
    kind: &'static str,
    path: &ExprPath,
    returned: Returned,
) -> TokenStream {
    let code = Code { facade, kind, returned, span: located_at_start(path) };
    code.now(&code.convert(quote_spanned!(code.span=> #path(__rate_limit_request))))
}

/// Expands a closure. It becomes a function: unlike a closure, it may return what borrows from the request.
pub(crate) fn expand_closure(
    facade: Facade<'_>,
    kind: &'static str,
    closure: &Closure,
    returned: Returned,
) -> TokenStream {
    let code = Code { facade, kind, returned, span: located_at_start(&closure.body) };
    let is_async = closure.asyncness.is_some();
    let function = code.define_function(closure);
    match &closure.inputs {
        Inputs::Request(input) if is_async => code.of_request_later(&function, input),
        Inputs::Request(input) => code.of_request_now(&function, input),
        Inputs::Extractors(inputs)
            if inputs.len() <= MAX_EXTRACTORS && inputs.iter().all(|input| input.shared.is_none()) =>
        {
            code.of_owned_extractors(&function, is_async, inputs)
        }
        Inputs::Extractors(inputs) => code.of_extractors(&function, is_async, inputs),
    }
}

/// The facade implements `TakesExtractors` for functions of up to this many extractors.
const MAX_EXTRACTORS: usize = 8;

/// What the code of one value becomes.
#[derive(Clone, Copy)]
struct Code<'a> {
    facade: Facade<'a>,
    /// The enum with the variants `Now` and `Later`: `PerRequest` or `By`.
    kind: &'static str,
    returned: Returned,
    /// The place of the user's code, where the compiler reports what does not fit.
    span: Span,
}

impl Code<'_> {
    fn now(&self, value: &TokenStream) -> TokenStream {
        let (span, private, kind) =
            (self.span, self.facade.private(self.span), Ident::new(self.kind, self.span));
        quote_spanned!(span=> #private::#kind::Now(|__rate_limit_request: &#private::HttpRequest| { #value }))
    }

    fn later(&self, value: &TokenStream) -> TokenStream {
        let (span, private, kind) =
            (self.span, self.facade.private(self.span), Ident::new(self.kind, self.span));
        quote_spanned!(span=> #private::#kind::Later(|__rate_limit_extracted| { #value }))
    }

    fn convert(&self, value: TokenStream) -> TokenStream {
        self.returned.convert(self.facade, self.span, value)
    }

    /// `|req: &HttpRequest| ..`
    fn of_request_now(&self, function: &TokenStream, input: &Input) -> TokenStream {
        let name = self.function_name();
        // At the type: the compiler reports a type other than the request's there.
        let request = Ident::new("__rate_limit_request", located_at_start(&input.ty));
        let value = self.convert(quote_spanned!(self.span=> #name(#request)));
        self.now(&quote!(#function #value))
    }

    /// `async |req: &HttpRequest| ..`
    fn of_request_later(&self, function: &TokenStream, input: &Input) -> TokenStream {
        let request = quote_spanned!(located_at_start(&input.ty)=> __rate_limit_extracted.request());
        let value = self.convert(quote_spanned!(self.span=> __rate_limit_function(#request).await));
        self.later(&self.async_block(&self.call_through_value(function, &value)))
    }

    /// A closure over extractors by value.
    fn of_owned_extractors(&self, function: &TokenStream, is_async: bool, inputs: &[Input]) -> TokenStream {
        let (span, private) = (self.span, self.facade.private(self.span));
        let form = Ident::new(if is_async { "TakesExtractorsAsync" } else { "TakesExtractors" }, span);
        let types = inputs.iter().map(|input| &input.ty);
        let form = quote_spanned!(span=> #private::#form<(#(#types,)*)>);
        let call = self.call_known_form(&quote!(_), &form, &self.function_name());
        let checks = self.checks(inputs);
        self.later(&quote!(#function #checks #call))
    }

    /// A closure with inputs by reference, or with more than a known form has: extracts the shared inputs one
    /// by one and the others together, and calls the function.
    fn of_extractors(&self, function: &TokenStream, is_async: bool, inputs: &[Input]) -> TokenStream {
        let span = self.span;
        let name_of = |index| Ident::new(&format!("__rate_limit_choice_{index}"), span);
        let names: Vec<Ident> = (0..inputs.len()).map(name_of).collect();
        let with_names = || inputs.iter().zip(&names);
        let shared = with_names().filter_map(|(input, name)| Some((input.shared.as_ref()?, name))).map(
            |(ty, name)| quote_spanned!(span=> let #name = __rate_limit_extracted.share::<#ty>().await?;),
        );
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
        let wait = is_async.then(|| quote_spanned!(span=> .await));
        let value = self.convert(quote_spanned!(span=> __rate_limit_function(#(#arguments),*) #wait));
        let checks = self.checks(inputs);
        self.later(
            &self.async_block(&self.call_through_value(function, &quote!(#checks #(#shared)* #owned #value))),
        )
    }

    /// Reports a type that is no extractor at its place.
    fn checks(&self, inputs: &[Input]) -> TokenStream {
        let check = |Input { ty, shared, .. }: &Input| {
            let ty = shared.as_ref().unwrap_or(ty);
            let span = located_at_start(ty);
            let private = self.facade.private(span);
            quote_spanned!(span=> #private::assert_bodyless_extractor::<#ty>();)
        };
        inputs.iter().map(check).collect()
    }

    /// Calls a function through a trait of the facade, such as `TakesExtractors`. The compiler has less to
    /// check than in an [`async_block`](Self::async_block).
    fn call_known_form(&self, ty: &TokenStream, form: &TokenStream, function: &impl ToTokens) -> TokenStream {
        let (span, private) = (self.span, self.facade.private(self.span));
        let conversion = self.returned.conversion(self.facade, span);
        quote_spanned! {span=>
            #private::later_call::<#ty, _, #form, _>(__rate_limit_extracted, #function, #conversion)
        }
    }

    /// An async block, boxed by `later`. What the value borrows lives inside of it.
    fn async_block(&self, value: &TokenStream) -> TokenStream {
        let (span, private) = (self.span, self.facade.private(self.span));
        quote_spanned! {span=>
            #private::later(async move {
                ::core::result::Result::Ok({ #value })
            })
        }
    }

    /// Otherwise `clippy::unused_async` would report an `async` closure without an `await`. The lint ignores
    /// functions that are used as values.
    fn call_through_value(&self, function: &TokenStream, value: &TokenStream) -> TokenStream {
        let name = self.function_name();
        quote_spanned! {self.span=>
            #function
            let __rate_limit_function = #name;
            #value
        }
    }

    fn function_name(&self) -> Ident {
        Ident::new("__rate_limit_chosen", self.span)
    }

    /// The function of a closure, with the closure's own return type or else that of the value.
    ///
    /// Under `#[get(..)] async fn user`, Actix-web makes a `struct user;`. A parameter `user` of the function
    /// would be that struct as a pattern. `const fn user() {}` hides the struct, and a parameter may shadow a
    /// function.
    fn define_function(&self, closure: &Closure) -> TokenStream {
        let (span, name) = (self.span, self.function_name());
        let Closure { asyncness, inputs, output, body, .. } = closure;
        let returned = output.clone().unwrap_or_else(|| {
            let ty = self.returned.ty(self.facade, span);
            match (inputs, self.returned) {
                // `impl IntoCaller` may borrow from the request.
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
            // The compiler would report a function that is not used.
            quote_spanned!(span=> const fn #name() {} const _: fn() = #name;)
        });
        quote_spanned! {span=>
            #(#shadows)*
            #asyncness fn #name(#(#parameters),*) -> #returned #body
        }
    }
}
