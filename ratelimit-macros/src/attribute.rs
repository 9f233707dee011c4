//! The attribute from end to end: tokens to arguments and handler, to a checked specification, to tokens.

use proc_macro2::TokenStream;

use crate::args::Args;
use crate::diagnostics::Diagnostics;
use crate::handler::Handler;
use crate::item::Item;
use crate::validate::{Spec, validate};
use crate::{expand, fallback};

/// What `#[rate_limit(arguments)] item` becomes.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = Item::split(item);
    match check(arguments, &item) {
        Ok(spec) => expand::expand(&spec),
        Err(errors) => fallback::expand(&errors, &item),
    }
}

/// Everything that can be wrong is found here, in one pass over all stacked attributes and the function.
fn check(arguments: TokenStream, item: &Item) -> syn::Result<Spec> {
    Diagnostics::collect(|diagnostics| {
        let mut group = vec![Args::parse(arguments, diagnostics)];
        for attribute in item.stacked() {
            group.push(Args::of_attribute(attribute, diagnostics));
        }
        let handler = Handler::parse(item, diagnostics);
        validate(group, handler, diagnostics)
    })
}

#[cfg(test)]
pub(crate) fn errors(arguments: TokenStream, item: TokenStream) -> Vec<syn::Error> {
    check(arguments, &Item::split(item)).err().into_iter().flatten().collect()
}
