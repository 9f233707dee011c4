//! A module or an impl block below the attribute: which of the functions inside are handlers, and whose limits they have.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, ExprPath, ImplItem, ItemImpl, Meta};

use crate::attribute::{handler, of_a_file, read, read_attribute};
use crate::diagnostics::{Diagnostics, Reported};
use crate::expand::source_text as text;
use crate::expand::wrapper as expand;
use crate::parse::args::Args;
use crate::parse::item::{Item, Kind};
use crate::parse::route::Route;
use crate::validate::handler::{Handler, Place};
use crate::validate::spec::Spec;

/// A module or impl block with its handlers limited.
pub(crate) struct Block {
    attributes: Vec<Attribute>,
    /// All before the braces.
    header: TokenStream,
    inner: Vec<Attribute>,
    members: Vec<Member>,
    braces: Group,
}

/// Something inside.
enum Member {
    Handler(Box<Spec>),
    Block(Block),
    /// Whatever has no limit.
    Other(TokenStream),
}

/// The limits of what is around a handler, which it has unless it has its own.
struct Inherited {
    /// The arguments of each attribute, as they were written: they are read anew for each handler.
    group: Vec<TokenStream>,
    /// Whether they are known to be sound.
    sound: bool,
    root: Option<ExprPath>,
    scope: Vec<String>,
}

/// Which functions have the limits of what is around them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// In a module: those with a route attribute.
    Routes,
    /// In an impl block: every `async fn` without `self`.
    Associated,
    /// In an impl block that has no attribute, in a module that has one: those that ask for it.
    Asking,
}

impl Block {
    /// Reads the item below the attribute, and records everything that is wrong anywhere inside.
    pub(crate) fn outermost(
        arguments: TokenStream,
        item: &Item,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let mut group = vec![arguments];
        for attribute in item.stacked() {
            group.push(arguments_of(attribute, diagnostics)?);
        }
        let inherited = Inherited::read(group, None, diagnostics);
        if let Some(exempt) = item.exempt() {
            diagnostics.error(
                exempt,
                "#[no_rate_limit] and #[rate_limit] contradict each other here; remove one of them",
            );
        }
        if is_file(item) {
            return Err(diagnostics.push(of_a_file()));
        }
        let block = Self::read(item, &inherited, true, diagnostics)?;
        if inherited.sound && block.count() == 0 {
            let help = match item.kind() {
                Kind::Impl => "no `async fn` without `self` in this impl block; nothing would be limited",
                _ => {
                    "no function with a route attribute in this module, so nothing would be limited; write \
                     `#[rate_limit]` above each handler that has none"
                }
            };
            return Err(diagnostics.error(block.header, help));
        }
        Ok(block)
    }

    /// `own`: whether the attribute stands on this block, or on one around it.
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
            return Err(diagnostics.error(
                &item.rest,
                "#[rate_limit] cannot see into a module in another file; write the module inline, or put the attribute \
                 on each handler, on an impl block, or on a module inside of that file",
            ));
        };
        let header: TokenStream = header.into_iter().collect();
        let (members, owner) = match item.kind() {
            Kind::Impl => (split::<ImplItem>(braces.stream()), Some(owner(&header, diagnostics)?)),
            _ => (split::<syn::Item>(braces.stream()), None),
        };
        let (inner, members) = members.map_err(|error| diagnostics.push(error))?;
        let reach = match (&owner, own) {
            (None, _) => Reach::Routes,
            (Some(_), true) => Reach::Associated,
            (Some(_), false) => Reach::Asking,
        };
        let scope = item.scope();
        let inherited = inherited.within(scope.as_ref());
        let mut sound = Ok(());
        let mut read = Vec::new();
        for member in members {
            match self::member(member, &inherited, reach, owner.as_deref(), diagnostics) {
                Ok(member) => read.push(member),
                Err(reported) => sound = Err(reported),
            }
        }
        sound?;
        Ok(Self { attributes: item.others().to_vec(), header, inner, members: read, braces })
    }

    /// How many handlers are limited.
    fn count(&self) -> usize {
        let count = |member: &Member| match member {
            Member::Handler(_) => 1,
            Member::Block(block) => block.count(),
            Member::Other(_) => 0,
        };
        self.members.iter().map(count).sum()
    }
}

impl ToTokens for Block {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attributes, header, inner, members, braces } = self;
        let mut inside = TokenStream::new();
        for attribute in inner {
            attribute.to_tokens(&mut inside);
        }
        for member in members {
            match member {
                Member::Handler(spec) => inside.extend(expand::expand(spec)),
                Member::Block(block) => block.to_tokens(&mut inside),
                Member::Other(other) => inside.extend(other.clone()),
            }
        }
        let mut braced = Group::new(Delimiter::Brace, inside);
        braced.set_span(braces.span());
        for attribute in attributes {
            attribute.to_tokens(tokens);
        }
        header.to_tokens(tokens);
        tokens.extend([TokenTree::Group(braced)]);
    }
}

impl Inherited {
    fn read(group: Vec<TokenStream>, root: Option<&ExprPath>, diagnostics: &mut Diagnostics) -> Self {
        let mut inherited = Self { group: Vec::new(), sound: true, root: root.cloned(), scope: Vec::new() };
        let result = Diagnostics::collect(|own| {
            for arguments in &group {
                let args = read(arguments.clone(), own);
                if let Some(direct) = &args.direct {
                    own.error(
                        &direct.keyword,
                        "`direct` names one function; put it on the handler, such as \
                         `#[rate_limit(max = 10, direct = user_body)]`",
                    );
                }
                if let Some(root) = args.root {
                    inherited.root = root.value.ok();
                }
            }
            Ok(())
        });
        if let Err(errors) = result {
            diagnostics.push(errors);
            inherited.sound = false;
        }
        inherited.group = group;
        inherited
    }

    /// The limits again, for one more handler. Their mistakes have been recorded.
    fn args(&self) -> Vec<Args> {
        let mut ignored = Diagnostics::default();
        self.group.iter().map(|arguments| read(arguments.clone(), &mut ignored)).collect()
    }

    /// The same inside a block, which may be a scope with parameters.
    fn within(&self, scope: Option<&Route>) -> Self {
        let parameters = scope.into_iter().flat_map(|scope| scope.parameters.iter().cloned());
        Self {
            group: self.group.clone(),
            sound: self.sound,
            root: self.root.clone(),
            scope: self.scope.iter().cloned().chain(parameters).collect(),
        }
    }
}

fn member(
    tokens: TokenStream,
    inherited: &Inherited,
    reach: Reach,
    owner: Option<&str>,
    diagnostics: &mut Diagnostics,
) -> Result<Member, Reported> {
    let item = Item::split(tokens.clone());
    if let Some(conditional) = item.conditional() {
        return Err(diagnostics.error(
            conditional,
            "inside a limited module or impl block, #[rate_limit] and #[no_rate_limit] cannot be under a condition; \
             write the handler twice, each under `#[cfg(..)]`",
        ));
    }
    if let Some(exempt) = item.exempt() {
        if !item.stacked().is_empty() {
            return Err(diagnostics.error(
                exempt,
                "#[no_rate_limit] and #[rate_limit] contradict each other here; remove one of them",
            ));
        }
        if !matches!(exempt.meta, Meta::Path(_)) {
            let help = "#[no_rate_limit] takes no arguments; write it without any, or #[rate_limit(..)] for another limit";
            return Err(diagnostics.error(exempt, help));
        }
        return Ok(Member::Other(item.into_token_stream()));
    }
    match item.kind() {
        Kind::Module | Kind::Impl => return nested(&item, tokens, inherited, diagnostics),
        Kind::Crate | Kind::Other => {}
    }
    let reached = match reach {
        Reach::Routes => item.has_route(),
        Reach::Associated => item.is_async_fn() && !has_receiver(&item),
        Reach::Asking => false,
    };
    if item.stacked().is_empty() && !reached {
        return Ok(Member::Other(tokens));
    }
    let group = own_group(&item, inherited, diagnostics);
    let mut routes = item.routes();
    for route in &mut routes {
        route.parameters.extend(inherited.scope.iter().cloned());
    }
    let place = owner.map_or(Place::Free, Place::Type);
    if !inherited.sound && item.stacked().is_empty() {
        // What is wrong with its limits has been said; what is wrong with itself has not.
        let ignored = Handler::parse(&item, place, None, diagnostics);
        return ignored.map(|_| Member::Other(tokens));
    }
    handler(&item, group, place, &routes, inherited.root.as_ref(), diagnostics)
        .map(|spec| Member::Handler(Box::new(spec)))
}

/// The limits of a handler: its own, or those around it. A bare `#[rate_limit]` stands for those around it.
fn own_group(item: &Item, inherited: &Inherited, diagnostics: &mut Diagnostics) -> Vec<Args> {
    if item.stacked().is_empty() {
        return inherited.args();
    }
    let mut group = Vec::new();
    for attribute in item.stacked() {
        if is_bare(attribute) {
            group.extend(inherited.args());
        } else {
            group.push(read_attribute(attribute, diagnostics));
        }
    }
    group
}

/// A module or impl block inside: its own limits are for it, as on a handler.
fn nested(
    item: &Item,
    tokens: TokenStream,
    inherited: &Inherited,
    diagnostics: &mut Diagnostics,
) -> Result<Member, Reported> {
    if item.stacked().is_empty() {
        // A module in another file has limits of its own, or none.
        let is_inline =
            item.rest.clone().into_iter().last().is_some_and(|last| matches!(last, TokenTree::Group(_)));
        let is_trait_impl = item.kind() == Kind::Impl && is_trait_impl(&item.rest);
        if !is_inline || is_trait_impl {
            return Ok(Member::Other(tokens));
        }
        return Block::read(item, inherited, false, diagnostics).map(Member::Block);
    }
    let mut group = Vec::new();
    for attribute in item.stacked() {
        if is_bare(attribute) {
            group.extend(inherited.group.iter().cloned());
        } else {
            group.push(arguments_of(attribute, diagnostics)?);
        }
    }
    let only_inherits = item.stacked().iter().all(is_bare);
    let own;
    let limits = if only_inherits {
        inherited
    } else {
        own = Inherited {
            scope: inherited.scope.clone(),
            ..Inherited::read(group, inherited.root.as_ref(), diagnostics)
        };
        &own
    };
    Block::read(item, limits, true, diagnostics).map(Member::Block)
}

/// Whether an attribute has no arguments, with or without parentheses around them.
fn is_bare(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(_) => true,
        Meta::List(list) => list.tokens.is_empty(),
        Meta::NameValue(_) => false,
    }
}

/// Whether a module is a file, whose own first line the attribute is: its braces then stand for the semicolon after
/// its name.
fn is_file(item: &Item) -> bool {
    let Some(TokenTree::Group(braces)) = item.rest.clone().into_iter().last() else { return false };
    braces.span().source_text().is_some_and(|source| source.trim_end().ends_with(';'))
}

fn arguments_of(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Result<TokenStream, Reported> {
    match &attribute.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        Meta::List(list) => Ok(list.tokens.clone()),
        Meta::NameValue(meta) => Err(diagnostics
            .error(meta, "arguments go in parentheses: write `#[rate_limit(max = 10, window = \"60s\")]`")),
    }
}

/// The type of an impl block, as text.
fn owner(header: &TokenStream, diagnostics: &mut Diagnostics) -> Result<String, Reported> {
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
        Ok(block) => Ok(text::of(&block.self_ty)),
        Err(error) => Err(diagnostics.push(error)),
    }
}

fn is_trait_impl(header: &TokenStream) -> bool {
    let mut tokens = header.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_bound = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '<');
        if matches!(&token, TokenTree::Ident(word) if word == "for") && !is_bound {
            return true;
        }
    }
    false
}

fn has_receiver(item: &Item) -> bool {
    let parts = |input: ParseStream<'_>| {
        let _visibility: syn::Visibility = input.parse()?;
        let signature: syn::Signature = input.parse()?;
        let _body: TokenStream = input.parse()?;
        Ok(signature.receiver().is_some())
    };
    parts.parse2(item.rest.clone()).unwrap_or(false)
}

/// Cuts what is between the braces into items, each as the tokens that it was written with.
fn split<T: Parse>(inside: TokenStream) -> syn::Result<(Vec<Attribute>, Vec<TokenStream>)> {
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
