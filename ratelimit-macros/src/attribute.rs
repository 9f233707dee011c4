//! Entry points of the attributes: parse, validate, then expand or fall back.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;

use crate::diagnostics::Diagnostics;
use crate::expand::wrapper::USED;
use crate::expand::{self, fallback};
use crate::parse::items::item::Item;
use crate::parse::items::item_kind::ItemKind;
use crate::parse::kind::Kind;
use crate::validate::container::{Container, whole_file_error};
use crate::validate::inherited::Inherited;
use crate::validate::spec::HandlerSpec;

/// Expands `#[rate_limit(arguments)] item`, or the other kind.
pub(crate) fn expand(kind: Kind, arguments: TokenStream, item: TokenStream) -> TokenStream {
    if is_use(&arguments) {
        return TokenStream::new();
    }
    let item = Item::below(kind, arguments, item);
    expansion(kind, &item).unwrap_or_else(|errors| {
        let tokens = item.to_token_stream();
        let is_function = item.kind() == ItemKind::Other;
        fallback::expand(&errors, &if is_function { tokens } else { fallback::strip(tokens) })
    })
}

/// Whether an attribute only uses its import.
fn is_use(arguments: &TokenStream) -> bool {
    matches!(arguments.clone().into_iter().next(), Some(TokenTree::Ident(word)) if word == USED)
}

fn expansion(kind: Kind, item: &Item) -> syn::Result<TokenStream> {
    let around = Inherited::default();
    match item.kind() {
        ItemKind::Other => {
            Diagnostics::collect(kind, |diagnostics| HandlerSpec::read(item, None, &around, diagnostics))
                .map(|spec| expand::wrapper::expand(&spec))
        }
        ItemKind::Module | ItemKind::Impl => {
            Diagnostics::collect(kind, |diagnostics| Container::read(item, &around, diagnostics))
                .map(|container| expand::container(&container))
        }
        ItemKind::Crate => Err(whole_file_error(kind)),
    }
}

/// Expands a `#[no_rate_limit]` without a `#[rate_limit]` around it, which would have removed it.
pub(crate) fn expand_exemption(arguments: &TokenStream, item: &TokenStream) -> TokenStream {
    if is_use(arguments) { TokenStream::new() } else { fallback::expand(&misplaced_exemption(), item) }
}

pub(crate) fn misplaced_exemption() -> syn::Error {
    syn::Error::new(
        Span::call_site(),
        "no module or impl block around this handler has #[rate_limit]; remove #[no_rate_limit]",
    )
}

#[cfg(test)]
pub(crate) fn errors(kind: Kind, arguments: TokenStream, item: TokenStream) -> Vec<syn::Error> {
    let errors = expansion(kind, &Item::below(kind, arguments, item)).err();
    errors.into_iter().flatten().collect()
}
