//! Output in case of mistakes: the errors and the user's item without limits.
//!
//! Without the item, each use of the handler would be a further error and hide the real one.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Meta;

use crate::parse::items::item::OURS;

/// The errors, followed by the item.
pub(crate) fn expand(errors: &syn::Error, item: &impl ToTokens) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    item.to_tokens(&mut tokens);
    tokens
}

/// A module, impl block or crate without our attributes at any depth: the compiler would expand them again,
/// and report that no `#[rate_limit]` is around them. A crate also loses `#[prelude_import]`, which only the
/// compiler may write.
pub(crate) fn strip(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut kept = TokenStream::new();
    while let Some(token) = tokens.next() {
        let token = match token {
            TokenTree::Punct(ref hash) if hash.as_char() == '#' && tokens.next_if(is_ours).is_some() => {
                continue;
            }
            TokenTree::Group(group) => {
                let mut inside = Group::new(group.delimiter(), strip(group.stream()));
                inside.set_span(group.span());
                inside.into()
            }
            other => other,
        };
        kept.extend([token]);
    }
    kept
}

fn is_ours(token: &TokenTree) -> bool {
    let TokenTree::Group(attribute) = token else { return false };
    let meta = syn::parse2::<Meta>(attribute.stream());
    let last = meta.ok().and_then(|meta| Some(meta.path().segments.last()?.ident.clone()));
    last.is_some_and(|word| word == "prelude_import" || OURS.iter().any(|ours| word == ours))
}
