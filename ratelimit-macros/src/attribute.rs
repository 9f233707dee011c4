//! The attribute from end to end: tokens to arguments and items, to checked specifications, to tokens.

use proc_macro2::{Span, TokenStream};

use crate::diagnostics::Diagnostics;
use crate::parse::item::Item;
use crate::parse::item_kind::ItemKind;
use crate::validate::block::{Block, whole_file_error};
use crate::validate::group::{handler, read, read_attribute};
use crate::validate::handler::Place;
use crate::validate::spec::HandlerSpec;
use crate::{expand, fallback};

/// What `#[rate_limit(arguments)] item` becomes.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = Item::split(item);
    match item.kind() {
        ItemKind::Other => match function(arguments, &item) {
            Ok(spec) => expand::wrapper::expand(&spec),
            Err(errors) => fallback::expand(&errors, &item),
        },
        ItemKind::Module | ItemKind::Impl => {
            let block = Diagnostics::collect(|diagnostics| Block::parse(arguments, &item, diagnostics));
            match block {
                Ok(block) => expand::block::expand(&block),
                Err(errors) => fallback::expand(&errors, &fallback::Stripped(&item)),
            }
        }
        ItemKind::Crate => fallback::expand(&whole_file_error(), &fallback::Stripped(&item)),
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
fn function(arguments: TokenStream, item: &Item) -> syn::Result<HandlerSpec> {
    Diagnostics::collect(|diagnostics| {
        let mut group = vec![read(arguments, diagnostics)];
        for attribute in item.stacked() {
            group.push(read_attribute(attribute, diagnostics));
        }
        if let Some(exemption) = item.exemption() {
            diagnostics.error(
                exemption,
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
        ItemKind::Other => function(arguments, &item).err(),
        ItemKind::Module | ItemKind::Impl => {
            Diagnostics::collect(|diagnostics| Block::parse(arguments, &item, diagnostics)).err()
        }
        ItemKind::Crate => Some(whole_file_error()),
    };
    errors.into_iter().flatten().collect()
}
