//! Third stage: turns specifications into tokens. It cannot fail. `expand.md` shows what a handler becomes.

mod calendar;
pub(crate) mod fallback;
mod limits;
pub(crate) mod paths;
mod per_request;
pub(crate) mod wrapper;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::expand::paths::Facade;
use crate::validate::container::{Container, Member};

/// A module or impl block, in which each handler is expanded and everything else copied.
pub(crate) fn container(container: &Container) -> TokenStream {
    let Container { attributes, header, inner, members, braces, other_kind, .. } = container;
    let used = other_kind.as_ref().map(wrapper::used);
    let used_inside = used_inside(container);
    let (beside, inside) = if container.is_impl { (used_inside, None) } else { (None, used_inside) };
    let mut inside = quote!(#(#inner)* #inside);
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
    quote!(#used #beside #(#attributes)* #header #braced)
}

/// Uses of our attributes on members, so that their imports are used. An attribute without an import comes
/// from the glob, which an import shadows.
fn used_inside(container: &Container) -> Option<TokenStream> {
    let uses = container.used_inside.values().map(wrapper::used);
    let private = Facade(container.facade.as_ref()).private(Span::mixed_site());
    (uses.len() > 0).then(|| quote!(#[allow(unused_imports)] use #private::attributes::*; #(#uses)*))
}
