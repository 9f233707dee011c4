//! Writes out a module or impl block with its handlers.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::expand::wrapper;
use crate::validate::block::{Block, BlockMember};

/// Expands each handler of `block` and copies everything else.
pub(crate) fn expand(block: &Block) -> TokenStream {
    let Block { attributes, header, inner, members, braces, other_kind } = block;
    let used = other_kind.as_ref().map(wrapper::used);
    let mut inside = quote!(#(#inner)*);
    for member in members {
        match member {
            BlockMember::Handler(spec) => inside.extend(wrapper::expand(spec)),
            BlockMember::Block(block) => inside.extend(expand(block)),
            BlockMember::Other(other) => other.to_tokens(&mut inside),
        }
    }
    let mut braced = Group::new(Delimiter::Brace, inside);
    braced.set_span(braces.span());
    let braced = TokenTree::Group(braced);
    quote!(#used #(#attributes)* #header #braced)
}
