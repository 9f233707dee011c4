//! Writes out a handler's entry in the list of all limits, with its limits.

use proc_macro2::{Literal, Span, TokenStream};
use quote::quote_spanned;

use crate::expand::limits;
use crate::expand::paths::Facade;
use crate::validate::spec::HandlerSpec;

/// The `static` with the limits of the group, and the entry that refers to it.
pub(crate) fn expand(spec: &HandlerSpec) -> TokenStream {
    let span = Span::mixed_site();
    let facade = Facade::of(spec);
    let private = facade.private(span);
    let name = spec.handler.path();
    let limits =
        spec.limits.iter().enumerate().map(|(index, limit)| limits::expand(facade, &name, index, limit));
    let count = Literal::usize_unsuffixed(spec.limits.len());
    // Spanned at the handler's name: elsewhere it would be the line of the attribute.
    let line = quote_spanned!(spec.handler.signature.ident.span()=> ::core::line!());
    quote_spanned! {span=>
        static __RATE_LIMIT: #private::Declaration<[#private::HandlerLimit; #count]> = #private::Declaration {
            handler: #name,
            module: ::core::module_path!(),
            file: ::core::file!(),
            line: #line,
            limits: [#(#limits),*],
        };
        #private::inventory::submit!(#private::Declared(&__RATE_LIMIT));
    }
}
