//! The attribute from end to end: tokens to arguments and items, to checked specifications, to tokens.

use proc_macro2::{Span, TokenStream};

use crate::diagnostics::Diagnostics;
use crate::parse::item::Item;
use crate::parse::item_kind::Kind;
use crate::validate::block::{Block, of_a_file};
use crate::validate::group::{handler, read, read_attribute};
use crate::validate::handler::Place;
use crate::validate::spec::Spec;
use crate::{expand, fallback};

/// What `#[rate_limit(arguments)] item` becomes.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = Item::split(item);
    match item.kind() {
        Kind::Other => match function(arguments, &item) {
            Ok(spec) => expand::wrapper::expand(&spec),
            Err(errors) => fallback::expand(&errors, &item),
        },
        Kind::Module | Kind::Impl => {
            let block = Diagnostics::collect(|diagnostics| Block::outermost(arguments, &item, diagnostics));
            match block {
                Ok(block) => expand::block::expand(&block),
                Err(errors) => fallback::expand(&errors, &fallback::Bare(&item)),
            }
        }
        Kind::Crate => fallback::expand(&of_a_file(), &fallback::Bare(&item)),
    }
}

/// What a `#[no_rate_limit]` becomes that no `#[rate_limit]` around it has taken off.
pub(crate) fn expand_exemption(item: &TokenStream) -> TokenStream {
    let error = syn::Error::new(
        Span::call_site(),
        "#[no_rate_limit] takes a handler out of the #[rate_limit] of the module or impl block around it, and there is \
         none; remove it",
    );
    fallback::expand(&error, item)
}

/// Everything that can be wrong is found here, in one pass over all stacked attributes and the function.
fn function(arguments: TokenStream, item: &Item) -> syn::Result<Spec> {
    Diagnostics::collect(|diagnostics| {
        let mut group = vec![read(arguments, diagnostics)];
        for attribute in item.stacked() {
            group.push(read_attribute(attribute, diagnostics));
        }
        if let Some(exempt) = item.exempt() {
            diagnostics.error(
                exempt,
                "#[no_rate_limit] and #[rate_limit] contradict each other here; remove one of them",
            );
        }
        handler(item, group, Place::Free, &item.routes(), None, diagnostics)
    })
}

#[cfg(test)]
pub(crate) fn errors(arguments: TokenStream, item: TokenStream) -> Vec<syn::Error> {
    let item = Item::split(item);
    let errors = match item.kind() {
        Kind::Other => function(arguments, &item).err(),
        Kind::Module | Kind::Impl => {
            Diagnostics::collect(|diagnostics| Block::outermost(arguments, &item, diagnostics)).err()
        }
        Kind::Crate => Some(of_a_file()),
    };
    errors.into_iter().flatten().collect()
}
