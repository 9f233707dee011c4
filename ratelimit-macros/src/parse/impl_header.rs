//! The header of an impl block.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::ItemImpl;

use crate::diagnostics::{Diagnostics, Reported};
use crate::source_text;

/// The type of an impl block, as text.
pub(crate) fn owner(header: &TokenStream, diagnostics: &mut Diagnostics) -> Result<String, Reported> {
    if is_trait_impl(header) {
        return Err(diagnostics.error(
            header,
            "#[rate_limit] changes the functions of an impl block, and those of a trait cannot change; put it on \
             `impl Type { .. }`",
        ));
    }
    let mut whole = header.clone();
    whole.extend([TokenTree::Group(Group::new(Delimiter::Brace, TokenStream::new()))]);
    match syn::parse2::<ItemImpl>(whole) {
        Ok(block) => Ok(source_text::of(&block.self_ty)),
        Err(error) => Err(diagnostics.push(error)),
    }
}

pub(crate) fn is_trait_impl(header: &TokenStream) -> bool {
    let mut tokens = header.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_bound = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '<');
        if matches!(&token, TokenTree::Ident(word) if word == "for") && !is_bound {
            return true;
        }
    }
    false
}
