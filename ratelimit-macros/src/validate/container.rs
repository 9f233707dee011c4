//! A module or impl block below the attribute: which functions inside are limited, and by which limits.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ExprPath, ImplItem, Meta};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::items::item::Item;
use crate::parse::items::item_kind::{ItemKind, is_associated_handler};
use crate::parse::items::members::{Owner, is_trait_impl, owner, split_items};
use crate::parse::kind::Kind;
use crate::validate::inherited::Inherited;
use crate::validate::spec::HandlerSpec;

/// A module or impl block and its members.
pub(crate) struct Container {
    pub(crate) attributes: Vec<Attribute>,
    /// The tokens before the braces.
    pub(crate) header: TokenStream,
    pub(crate) inner: Vec<Attribute>,
    pub(crate) members: Vec<Member>,
    pub(crate) braces: Group,
    /// The path of an attribute of the other kind (`rate_limit` or `concurrency_limit`). The expansion uses
    /// it, because the compiler would report its import otherwise.
    pub(crate) other_kind: Option<syn::Path>,
    /// The paths of our attributes on members, by their texts, for the same reason.
    pub(crate) used_inside: BTreeMap<String, syn::Path>,
    pub(crate) facade: Option<ExprPath>,
    pub(crate) is_impl: bool,
}

/// A member of a container.
pub(crate) enum Member {
    Handler(Box<HandlerSpec>),
    Container(Box<Container>),
    /// An item without limits.
    Other(TokenStream),
}

impl Container {
    /// Reads a module or impl block, and records all mistakes inside.
    pub(crate) fn read(
        item: &Item,
        around: &Inherited,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let inherited = Inherited::read(item, around, diagnostics);
        if is_file_module(item) {
            return Err(diagnostics.push(whole_file_error(diagnostics.kind)));
        }
        let mut header: Vec<TokenTree> = item.rest.clone().into_iter().collect();
        let Some(TokenTree::Group(braces)) = header
            .pop_if(|last| matches!(last, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace))
        else {
            let kind = diagnostics.kind;
            let message = format!(
                "{kind} cannot see into a module in another file; write the module inline, or put the attribute on each \
                 handler, on an impl block, or on a module inside of that file"
            );
            return Err(diagnostics.error(&item.rest, message));
        };
        let header: TokenStream = header.into_iter().collect();
        let (members, owner) = match item.kind() {
            ItemKind::Impl => (split_items::<ImplItem>(braces.stream()), Some(owner(&header, diagnostics)?)),
            _ => (split_items::<syn::Item>(braces.stream()), None),
        };
        let (inner, members) = members.map_err(|error| diagnostics.push(error))?;
        let has_own = !item.limits.is_empty();
        let mut used_inside = BTreeMap::new();
        let read = |tokens: TokenStream| {
            let member = Item::split(tokens.clone());
            let paths = member.ours().map(Attribute::path);
            used_inside.extend(paths.map(|path| (path.to_token_stream().to_string(), path.clone())));
            read_member(tokens, &member, &inherited, owner.as_ref(), has_own, diagnostics)
        };
        // All members are read before the first error returns, so that each mistake is recorded.
        let members: Vec<Result<Member, Reported>> = members.into_iter().map(read).collect();
        let members = members.into_iter().collect::<Result<Vec<_>, _>>()?;
        // `inherited.limits` is empty if a mistake was reported in them.
        if has_own && !inherited.limits.is_empty() && !members.iter().any(Member::is_limited) {
            let message = match owner {
                Some(_) => "no `async fn` without `self` in this impl block; nothing would be limited",
                None => {
                    "no function with a route attribute in this module, so nothing would be limited; write \
                     `#[rate_limit]` above each handler that has none"
                }
            };
            return Err(diagnostics.error(header, message));
        }
        let (attributes, other_kind) = (item.attributes.clone(), item.other_kind.clone());
        let (facade, is_impl) = (inherited.facade, owner.is_some());
        Ok(Self { attributes, header, inner, members, braces, other_kind, used_inside, facade, is_impl })
    }
}

impl Member {
    fn is_limited(&self) -> bool {
        match self {
            Self::Handler(_) => true,
            Self::Container(container) => container.members.iter().any(Self::is_limited),
            Self::Other(_) => false,
        }
    }
}

/// Reads a member of a module, or of an impl block of the type `owner`.
///
/// `has_own`: limits are written directly on this module or impl block. In an impl block, only these apply to
/// functions without their own; limits of a module around it do not.
fn read_member(
    tokens: TokenStream,
    item: &Item,
    inherited: &Inherited,
    owner: Option<&Owner>,
    has_own: bool,
    diagnostics: &mut Diagnostics,
) -> Result<Member, Reported> {
    if let Some(conditional) = item.conditional() {
        let message = "inside a limited module or impl block, attributes with limits and #[no_rate_limit] cannot be under a \
                       condition; write the handler twice, each under `#[cfg(..)]`";
        return Err(diagnostics.error(conditional, message));
    }
    if let Some(exemption) = &item.exemption
        && item.limits.is_empty()
    {
        if !matches!(exemption.meta, Meta::Path(_)) {
            let message = "#[no_rate_limit] takes no arguments; write it without any, or #[rate_limit(..)] for another limit";
            return Err(diagnostics.error(exemption, message));
        }
        return Ok(Member::Other(item.into_token_stream()));
    }
    let is_container = matches!(item.kind(), ItemKind::Module | ItemKind::Impl);
    let inherits = if is_container {
        // The functions of a module in another file are not in view, and those of a trait cannot change.
        ends_with_braces(&item.rest) && !is_trait_impl(&item.rest)
    } else if owner.is_some() {
        has_own && is_associated_handler(&item.rest)
    } else {
        item.has_route()
    };
    if item.limits.is_empty() && !inherits {
        Ok(Member::Other(tokens))
    } else if is_container {
        Container::read(item, inherited, diagnostics).map(|block| Member::Container(Box::new(block)))
    } else {
        let spec = HandlerSpec::read(item, owner, inherited, diagnostics)?;
        Ok(Member::Handler(Box::new(spec)))
    }
}

fn ends_with_braces(item: &TokenStream) -> bool {
    matches!(item.clone().into_iter().last(), Some(TokenTree::Group(_)))
}

/// Returns true if the attribute is an inner attribute of a module in its own file. rustc then gives the
/// braces the span of the semicolon of `mod name;`, so the source text of that span ends with `;`.
fn is_file_module(item: &Item) -> bool {
    let Some(TokenTree::Group(braces)) = item.rest.clone().into_iter().last() else { return false };
    braces.span().source_text().is_some_and(|source| source.trim_end().ends_with(';'))
}

/// The error about `#![rate_limit]`. The compiler's own error says that it is unstable; this one adds what to
/// write.
pub(crate) fn whole_file_error(kind: Kind) -> syn::Error {
    let message = format!(
        "{kind} cannot apply to a whole file; put it on each handler, on an impl block, or on an inline module \
         around the handlers, or limit a scope with the `RateLimitMiddleware`"
    );
    syn::Error::new(Span::call_site(), message)
}
