//! A module or impl block below the attribute: which functions inside are limited, and by which limits.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Meta};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::args::{Args, Written};
use crate::parse::item::Item;
use crate::parse::item_kind::{ItemKind, has_receiver, is_async_fn};
use crate::parse::kind::Kind;
use crate::parse::members::{is_trait_impl, owner, split_items};
use crate::validate::arguments::read_attribute;
use crate::validate::handler::Handler;
use crate::validate::inherited::Inherited;
use crate::validate::spec::{HandlerSpec, handler, report_contradiction};

/// A module or impl block and its members.
pub(crate) struct Container {
    pub(crate) attributes: Vec<Attribute>,
    /// The tokens before the braces.
    pub(crate) header: TokenStream,
    pub(crate) inner: Vec<Attribute>,
    pub(crate) members: Vec<Member>,
    pub(crate) braces: Group,
    /// As of a [handler](HandlerSpec::other_kind).
    pub(crate) other_kind: Option<syn::Path>,
}

/// A member of a container.
pub(crate) enum Member {
    Handler(Box<HandlerSpec>),
    Container(Container),
    /// An item without limits.
    Other(TokenStream),
}

/// The functions to which the limits of the container around them apply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applies {
    /// In a module: functions with a route attribute.
    ToRoutes,
    /// In an impl block: every `async fn` without `self`.
    ToAssociated,
    /// In an impl block without an attribute, inside a limited module: functions with `#[rate_limit]`.
    WhenAsked,
}

impl Container {
    /// Reads the item below the attribute, and records all mistakes inside.
    pub(crate) fn parse(
        attribute: Written,
        item: &Item,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let mut group = vec![attribute];
        for (kind, attribute) in &item.stacked {
            group.push(Written::below(*kind, attribute, diagnostics)?);
        }
        let inherited = Inherited::read(group, None, diagnostics);
        if let Some(exemption) = &item.exemption {
            report_contradiction(exemption, diagnostics.kind, diagnostics);
        }
        if is_file_module(item) {
            return Err(diagnostics.push(whole_file_error(diagnostics.kind)));
        }
        let container = Self::read(item, &inherited, true, diagnostics)?;
        let container = Self { other_kind: item.other_kind(diagnostics.kind), ..container };
        if inherited.is_valid && container.count() == 0 {
            let help = match item.kind() {
                ItemKind::Impl => "no `async fn` without `self` in this impl block; nothing would be limited",
                _ => {
                    "no function with a route attribute in this module, so nothing would be limited; write \
                     `#[rate_limit]` above each handler that has none"
                }
            };
            return Err(diagnostics.error(container.header, help));
        }
        Ok(container)
    }

    /// Reads a container. `own`: the attribute is on this container, not on one around it.
    fn read(
        item: &Item,
        inherited: &Inherited,
        own: bool,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let mut header: Vec<TokenTree> = item.rest.clone().into_iter().collect();
        let Some(TokenTree::Group(braces)) = header
            .pop_if(|last| matches!(last, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace))
        else {
            let message = format!(
                "{} cannot see into a module in another file; write the module inline, or put the attribute \
                 on each handler, on an impl block, or on a module inside of that file",
                diagnostics.kind
            );
            return Err(diagnostics.error(&item.rest, message));
        };
        let header: TokenStream = header.into_iter().collect();
        let (members, owner) = match item.kind() {
            ItemKind::Impl => (split_items::<ImplItem>(braces.stream()), Some(owner(&header, diagnostics)?)),
            _ => (split_items::<syn::Item>(braces.stream()), None),
        };
        let (inner, members) = members.map_err(|error| diagnostics.push(error))?;
        let applies = match (&owner, own) {
            (None, _) => Applies::ToRoutes,
            (Some(_), true) => Applies::ToAssociated,
            (Some(_), false) => Applies::WhenAsked,
        };
        let scope = item.scope();
        let inherited = inherited.within(scope.as_ref());
        let mut sound = Ok(());
        let mut read = Vec::new();
        for member in members {
            match read_member(member, &inherited, applies, owner.as_deref(), diagnostics) {
                Ok(member) => read.push(member),
                Err(reported) => sound = Err(reported),
            }
        }
        sound?;
        let attributes = item.attributes.clone();
        Ok(Self { attributes, header, inner, members: read, braces, other_kind: None })
    }

    /// The number of limited handlers.
    fn count(&self) -> usize {
        let count = |member: &Member| match member {
            Member::Handler(_) => 1,
            Member::Container(container) => container.count(),
            Member::Other(_) => 0,
        };
        self.members.iter().map(count).sum()
    }
}

fn read_member(
    tokens: TokenStream,
    inherited: &Inherited,
    applies: Applies,
    owner: Option<&str>,
    diagnostics: &mut Diagnostics,
) -> Result<Member, Reported> {
    let item = Item::split(tokens.clone());
    if let Some(conditional) = item.conditional() {
        return Err(diagnostics.error(
            conditional,
            "inside a limited module or impl block, attributes with limits and #[no_rate_limit] cannot be under a condition; \
             write the handler twice, each under `#[cfg(..)]`",
        ));
    }
    if let Some(exemption) = &item.exemption {
        if let Some((kind, _)) = item.stacked.first() {
            return Err(report_contradiction(exemption, *kind, diagnostics));
        }
        if !matches!(exemption.meta, Meta::Path(_)) {
            let help = "#[no_rate_limit] takes no arguments; write it without any, or #[rate_limit(..)] for another limit";
            return Err(diagnostics.error(exemption, help));
        }
        return Ok(Member::Other(item.into_token_stream()));
    }
    match item.kind() {
        ItemKind::Module | ItemKind::Impl => return read_nested(&item, tokens, inherited, diagnostics),
        ItemKind::Crate | ItemKind::Other => {}
    }
    let is_limited = match applies {
        Applies::ToRoutes => item.has_route(),
        Applies::ToAssociated => is_async_fn(&item.rest) && !has_receiver(&item.rest),
        Applies::WhenAsked => false,
    };
    if item.stacked.is_empty() && !is_limited {
        return Ok(Member::Other(tokens));
    }
    let group = limits_of(&item, inherited, diagnostics);
    let mut routes = item.routes();
    for route in &mut routes {
        route.parameters.extend(inherited.scope.iter().cloned());
    }
    if !inherited.is_valid && item.stacked.is_empty() {
        // Mistakes in its limits have been reported. Those in the handler have not.
        let ignored = Handler::parse(&item, owner, None, diagnostics);
        return ignored.map(|_| Member::Other(tokens));
    }
    handler(&item, group, owner, &routes, inherited.facade.as_ref(), diagnostics)
        .map(|spec| Member::Handler(Box::new(spec)))
}

/// The limits of a handler: its own or the inherited ones. A bare `#[rate_limit]` means the inherited
/// ones.
fn limits_of(item: &Item, inherited: &Inherited, diagnostics: &mut Diagnostics) -> Vec<Args> {
    if item.stacked.is_empty() {
        return inherited.args();
    }
    let mut group = Vec::new();
    for (kind, attribute) in &item.stacked {
        if is_bare(*kind, attribute) {
            group.extend(inherited.args());
        } else {
            group.push(read_attribute(*kind, attribute, diagnostics));
        }
    }
    group
}

/// Reads a container inside a container. Its own limits replace the inherited ones, as on a handler.
fn read_nested(
    item: &Item,
    tokens: TokenStream,
    inherited: &Inherited,
    diagnostics: &mut Diagnostics,
) -> Result<Member, Reported> {
    if item.stacked.is_empty() {
        // The functions of a module in another file are not visible here.
        let is_inline =
            item.rest.clone().into_iter().last().is_some_and(|last| matches!(last, TokenTree::Group(_)));
        let is_trait_impl = item.kind() == ItemKind::Impl && is_trait_impl(&item.rest);
        if !is_inline || is_trait_impl {
            return Ok(Member::Other(tokens));
        }
        return Container::read(item, inherited, false, diagnostics).map(Member::Container);
    }
    let mut group = Vec::new();
    for (kind, attribute) in &item.stacked {
        if is_bare(*kind, attribute) {
            group.extend(inherited.group.iter().cloned());
        } else {
            group.push(Written::below(*kind, attribute, diagnostics)?);
        }
    }
    let only_inherits = item.stacked.iter().all(|(kind, attribute)| is_bare(*kind, attribute));
    let own;
    let limits = if only_inherits {
        inherited
    } else {
        own = Inherited {
            scope: inherited.scope.clone(),
            ..Inherited::read(group, inherited.facade.as_ref(), diagnostics)
        };
        &own
    };
    Container::read(item, limits, true, diagnostics).map(Member::Container)
}

/// Returns true for `#[rate_limit]` without arguments, with or without parentheses.
fn is_bare(kind: Kind, attribute: &Attribute) -> bool {
    kind == Kind::Rate
        && match &attribute.meta {
            Meta::Path(_) => true,
            Meta::List(list) => list.tokens.is_empty(),
            Meta::NameValue(_) => false,
        }
}

/// Returns true if the attribute is an inner attribute of a module in its own file. The braces are then
/// spanned at the semicolon of `mod name;`.
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
