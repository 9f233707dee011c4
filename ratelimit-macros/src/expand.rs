//! Third stage: turns specifications into tokens. It cannot fail.

pub(crate) mod fallback;
mod limits;
pub(crate) mod paths;
mod per_request;
pub(crate) mod wrapper;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::validate::container::{Container, Member};

/// A module or impl block, in which each handler is expanded and everything else copied.
pub(crate) fn container(container: &Container) -> TokenStream {
    let Container { attributes, header, inner, members, braces, other_kind } = container;
    let used = other_kind.as_ref().map(wrapper::used);
    let mut inside = quote!(#(#inner)*);
    for member in members {
        match member {
            Member::Handler(spec) => inside.extend(wrapper::expand(spec)),
            Member::Container(container) => inside.extend(self::container(container)),
            Member::Other(other) => other.to_tokens(&mut inside),
        }
    }
    let mut braced = Group::new(Delimiter::Brace, inside);
    braced.set_span(braces.span());
    let braced = TokenTree::Group(braced);
    quote!(#used #(#attributes)* #header #braced)
}
