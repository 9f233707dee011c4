//! Writes out a handler's entry in the list of all limits, with its limits.

use proc_macro2::{Literal, Span, TokenStream};
use quote::quote_spanned;

use crate::expand::limits;
use crate::expand::paths::Facade;
use crate::validate::handler::Handler;
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
    let line = line(&spec.handler);
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

/// The line of the handler's name. Spanned at that name; elsewhere `line!` would give the line of the attribute.
fn line(handler: &Handler) -> TokenStream {
    quote_spanned!(handler.signature.ident.span()=> ::core::line!())
}
