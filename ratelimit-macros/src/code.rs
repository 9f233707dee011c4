//! Closures as functions: a function may return what it borrows from the request, a closure may not.

use std::slice;

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use crate::paths::{Root, located_at_start};
use crate::source::{Closure, Input, Inputs};

/// A function that finds a caller, and its name.
pub(crate) fn key_function(root: &Root, closure: &Closure) -> (Ident, TokenStream) {
    let span = located_at_start(&closure.body);
    let private = root.private(span);
    let returned = match &closure.inputs {
        Inputs::Request(_) => quote_spanned!(span=> impl #private::IntoCaller + '_),
        Inputs::Extractors(_) => quote_spanned!(span=> impl #private::IntoCaller),
    };
    function(closure, &returned)
}

/// A function that returns `returned`, unless the closure says something else, and its name.
///
/// A parameter called like a handler with a route attribute would be taken for the unit struct that Actix-web makes of
/// it. A function of that name is nearer, and a parameter may shadow a function.
pub(crate) fn function(closure: &Closure, returned: &TokenStream) -> (Ident, TokenStream) {
    let span = located_at_start(&closure.body);
    let name = Ident::new("__rate_limit_chosen", span);
    let Closure { asyncness, inputs, output, body, .. } = closure;
    let returned = output.as_ref().unwrap_or(returned);
    let inputs = match inputs {
        Inputs::Request(input) => slice::from_ref(input),
        Inputs::Extractors(inputs) => inputs,
    };
    let parameters = inputs.iter().map(parameter);
    let shadows = inputs.iter().flat_map(|input| &input.names).map(|name| {
        // Used at once, lest it be called dead.
        quote_spanned!(span=> const fn #name() {} const _: fn() = #name;)
    });
    let function = quote_spanned! {span=>
        #(#shadows)*
        #asyncness fn #name(#(#parameters),*) -> #returned #body
    };
    (name, function)
}

fn parameter(Input { pattern, ty, .. }: &Input) -> TokenStream {
    quote!(#pattern: #ty)
}

/// The value of a closure for the request of `group`: a block that may return from the handler.
///
/// The function is taken as a value before it is called: that it is async without an `await` in it is then no matter to
/// `clippy::unused_async`, as with any closure.
pub(crate) fn call(root: &Root, closure: &Closure, (name, function): (Ident, TokenStream)) -> TokenStream {
    let span = located_at_start(&closure.body);
    let wait = closure.asyncness.map(|_| quote_spanned!(span=> .await));
    match &closure.inputs {
        Inputs::Request(Input { ty, .. }) => {
            let request = quote_spanned!(located_at_start(ty)=> __rate_limit_group.request());
            quote_spanned! {span=> {
                #function
                let __rate_limit_function = #name;
                __rate_limit_function(#request) #wait
            }}
        }
        Inputs::Extractors(inputs) => {
            let checks = inputs.iter().map(|Input { ty, .. }| {
                let span = located_at_start(ty);
                let private = root.private(span);
                quote_spanned!(span=> #private::assert_bodyless_extractor::<#ty>();)
            });
            let types = inputs.iter().map(|input| &input.ty);
            let names: Vec<Ident> = (0..inputs.len())
                .map(|index| Ident::new(&format!("__rate_limit_choice_{index}"), span))
                .collect();
            quote_spanned! {span=> {
                #function
                let __rate_limit_function = #name;
                #(#checks)*
                match __rate_limit_group.extract::<(#(#types,)*)>().await {
                    ::core::result::Result::Ok((#(#names,)*)) => __rate_limit_function(#(#names),*) #wait,
                    ::core::result::Result::Err(__rate_limit_response) => return __rate_limit_response,
                }
            }}
        }
    }
}
