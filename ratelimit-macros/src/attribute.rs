//! The attribute from end to end: tokens to arguments and items, to checked specifications, to tokens.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::ExprPath;

use crate::args::Args;
use crate::block::Block;
use crate::diagnostics::{Diagnostics, Reported};
use crate::handler::{Handler, Place};
use crate::item::{Item, Kind};
use crate::route::Route;
use crate::validate::{self, Spec, validate};
use crate::{expand, fallback, rules};

/// What `#[rate_limit(arguments)] item` becomes.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = Item::split(item);
    match item.kind() {
        Kind::Other => match function(arguments, &item) {
            Ok(spec) => expand::expand(&spec),
            Err(errors) => fallback::expand(&errors, &item),
        },
        Kind::Module | Kind::Impl => {
            let block = Diagnostics::collect(|diagnostics| Block::outermost(arguments, &item, diagnostics));
            match block {
                Ok(block) => block.into_token_stream(),
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

/// What is wrong with `#![rate_limit]`. The compiler has said that it is unstable; what to do instead, it does not know.
pub(crate) fn of_a_file() -> syn::Error {
    syn::Error::new(
        Span::call_site(),
        "#[rate_limit] cannot stand for a whole file; put it on each handler, on an impl block, or on an inline module \
         around the handlers, or limit a scope with the `RateLimitMiddleware`",
    )
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

/// The arguments of an attribute, with the rules between them.
pub(crate) fn read(arguments: TokenStream, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::parse(arguments, diagnostics);
    rules::check(&args, diagnostics);
    args
}

/// The same for an attribute below.
pub(crate) fn read_attribute(attribute: &syn::Attribute, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::of_attribute(attribute, diagnostics);
    rules::check(&args, diagnostics);
    args
}

/// A handler with all of its limits, whatever attribute they come from.
pub(crate) fn handler(
    item: &Item,
    group: Vec<Args>,
    place: Place<'_>,
    routes: &[Route],
    root: Option<&ExprPath>,
    diagnostics: &mut Diagnostics,
) -> Result<Spec, Reported> {
    let beside = item.has_route() || matches!(place, Place::Type(_));
    let direct = validate::direct(&group, beside, diagnostics);
    let handler = Handler::parse(item, place, direct.as_ref(), diagnostics);
    validate(group, handler, routes, root, diagnostics)
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
