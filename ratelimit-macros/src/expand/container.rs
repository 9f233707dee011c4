//! Writes out a module or impl block with its handlers.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::expand::wrapper;
use crate::validate::container::{Container, Member};

/// Expands each handler of `container` and copies everything else.
pub(crate) fn expand(container: &Container) -> TokenStream {
    let Container { attributes, header, inner, members, braces, other_kind } = container;
    let used = other_kind.as_ref().map(wrapper::used);
    let mut inside = quote!(#(#inner)*);
    for member in members {
        match member {
            Member::Handler(spec) => inside.extend(wrapper::expand(spec)),
            Member::Container(container) => inside.extend(expand(container)),
            Member::Other(other) => other.to_tokens(&mut inside),
        }
    }
    let mut braced = Group::new(Delimiter::Brace, inside);
    braced.set_span(braces.span());
    let braced = TokenTree::Group(braced);
    quote!(#used #(#attributes)* #header #braced)
}
