//! Writes closures out as functions, which may return a borrow of the request.

use std::slice;

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use crate::diagnostics::located_at_start;
use crate::expand::paths::Facade;
use crate::parse::request_fn::{Closure, Input, Inputs};

/// A function that returns what implements a trait of the facade, and its name.
pub(crate) fn function_to(facade: Facade<'_>, closure: &Closure, bound: &Ident) -> (Ident, TokenStream) {
    let span = located_at_start(&closure.body);
    let private = facade.private(span);
    let returned = match &closure.inputs {
        Inputs::Request(_) => quote_spanned!(span=> impl #private::#bound + '_),
        Inputs::Extractors(_) => quote_spanned!(span=> impl #private::#bound),
    };
    function(closure, &returned)
}

/// A function with the closure's own return type, or else `returned`, and its name.
///
/// Actix-web makes a unit struct of a handler with a route attribute. A parameter of the same name would be a
/// pattern of that struct. A nested function of the same name hides the struct, and a parameter may shadow a
/// function.
pub(crate) fn function(closure: &Closure, returned: &TokenStream) -> (Ident, TokenStream) {
    let span = located_at_start(&closure.body);
    let name = Ident::new("__rate_limit_chosen", span);
    let Closure { asyncness, inputs, output, body, .. } = closure;
    let returned = output.as_ref().unwrap_or(returned);
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

/// A block with the value of the closure for one request, converted by `convert`: the value may borrow from
/// what the closure takes by reference. `failed` is the arm for an extractor that fails.
///
/// The function is taken as a value before the call, because `clippy::unused_async` ignores functions that
/// are used as values.
pub(crate) fn call(
    facade: Facade<'_>,
    closure: &Closure,
    (name, function): (Ident, TokenStream),
    convert: impl FnOnce(TokenStream) -> TokenStream,
    failed: &TokenStream,
) -> TokenStream {
    let span = located_at_start(&closure.body);
    let wait = closure.asyncness.map(|_| quote_spanned!(span=> .await));
    match &closure.inputs {
        Inputs::Request(input) => {
            let ty = &input.ty;
            let request = quote_spanned!(located_at_start(ty)=> __rate_limit_group.request());
            let value = convert(quote_spanned!(span=> __rate_limit_function(#request) #wait));
            quote_spanned! {span=> {
                #function
                let __rate_limit_function = #name;
                #value
            }}
        }
        Inputs::Extractors(inputs) => {
            let checks = inputs.iter().map(|Input { ty, shared, .. }| {
                let ty = shared.as_ref().unwrap_or(ty);
                let span = located_at_start(ty);
                let private = facade.private(span);
                quote_spanned!(span=> #private::assert_bodyless_extractor::<#ty>();)
            });
            let name_of = |index| Ident::new(&format!("__rate_limit_choice_{index}"), span);
            let names: Vec<Ident> = (0..inputs.len()).map(name_of).collect();
            let with_names = || inputs.iter().zip(&names);
            let shared = with_names().filter_map(|(input, name)| Some((input.shared.as_ref()?, name)));
            let shared = shared.map(|(ty, name)| {
                quote_spanned! {span=>
                    let #name = match __rate_limit_group.share::<#ty>().await {
                        ::core::result::Result::Ok(__rate_limit_shared) => __rate_limit_shared,
                        #failed
                    };
                }
            });
            let (types, owned): (Vec<_>, Vec<_>) = with_names()
                .filter(|(input, _)| input.shared.is_none())
                .map(|(input, name)| (&input.ty, name))
                .unzip();
            let arguments = with_names().map(|(input, name)| {
                let reference = input.shared.as_ref().map(|_| quote_spanned!(span=> &));
                quote_spanned!(span=> #reference #name)
            });
            let value = convert(quote_spanned!(span=> __rate_limit_function(#(#arguments),*) #wait));
            let value = if types.is_empty() {
                value
            } else {
                quote_spanned! {span=>
                    match __rate_limit_group.extract::<(#(#types,)*)>().await {
                        ::core::result::Result::Ok((#(#owned,)*)) => #value,
                        #failed
                    }
                }
            };
            quote_spanned! {span=> {
                #function
                let __rate_limit_function = #name;
                #(#checks)*
                #(#shared)*
                #value
            }}
        }
    }
}
