//! The parts of a module or impl block: the header, and the items between the braces.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, GenericParam, Generics, ItemImpl};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::tokens::code_text;

/// The type of an impl block, and the generic parameters of the block.
pub(crate) struct Owner {
    /// The type as text.
    pub(crate) name: String,
    pub(crate) parameters: Vec<Ident>,
}

/// Type and const parameters.
pub(crate) fn parameters(generics: &Generics) -> impl Iterator<Item = &Ident> {
    generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) => Some(&parameter.ident),
        GenericParam::Const(parameter) => Some(&parameter.ident),
        GenericParam::Lifetime(_) => None,
    })
}

/// Reads the header of an impl block.
pub(crate) fn owner(header: &TokenStream, diagnostics: &mut Diagnostics) -> Result<Owner, Reported> {
    if is_trait_impl(header) {
        let kind = diagnostics.kind;
        let message = format!(
            "{kind} changes the functions of an impl block, and those of a trait cannot change; put it on `impl Type {{ .. }}`"
        );
        return Err(diagnostics.error(header, message));
    }
    let mut whole = header.clone();
    whole.extend([TokenTree::Group(Group::new(Delimiter::Brace, TokenStream::new()))]);
    let block = syn::parse2::<ItemImpl>(whole).map_err(|error| diagnostics.push(error))?;
    let parameters = parameters(&block.generics).cloned().collect();
    Ok(Owner { name: code_text(&block.self_ty), parameters })
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

/// Splits the content of the braces into inner attributes and items. Items keep their tokens.
pub(crate) fn split_items<T: Parse>(inside: TokenStream) -> syn::Result<(Vec<Attribute>, Vec<TokenStream>)> {
    let parser = |input: ParseStream<'_>| {
        let inner = Attribute::parse_inner(input)?;
        let mut items = Vec::new();
        while !input.is_empty() {
            let ahead = input.fork();
            ahead.parse::<T>()?;
            let mut item = TokenStream::new();
            while input.cursor() < ahead.cursor() {
                item.extend([input.parse::<TokenTree>()?]);
            }
            items.push(item);
        }
        Ok((inner, items))
    };
    parser.parse2(inside)
}
