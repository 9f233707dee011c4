//! The item below the attribute, and the place of each of its attributes.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::token::Paren;
use syn::{AttrStyle, Attribute, MacroDelimiter, Meta, MetaList, Path};

use crate::parse::code::tokens::has_word;
use crate::parse::items::item_kind::{self, ItemKind};
use crate::parse::items::route::Route;
use crate::parse::kind::Kind;

/// Attributes of Actix-web that register a handler.
const ROUTE_ATTRIBUTES: [&str; 11] =
    ["get", "post", "put", "delete", "head", "connect", "options", "trace", "patch", "route", "routes"];

/// Other attributes that belong to the wrapper, which the rest of the program sees. Lint levels of the
/// wrapper also apply to the function nested in it. They are not copied: the copy of an `expect` would never
/// be fulfilled.
const WRAPPER_ATTRIBUTES: [&str; 10] =
    ["doc", "cfg", "cfg_attr", "allow", "expect", "warn", "deny", "forbid", "deprecated", "must_use"];

/// Attributes of the wrapper that a function beside it gets as well.
const COPIED: [&str; 7] = ["allow", "expect", "warn", "deny", "forbid", "cfg", "doc"];

/// Attributes that do not work on a nested function, with their crate and effect. They change the function's
/// arguments, or add items beside it that the rest of the program uses.
const ABOVE_ONLY: [(&str, &str, &str); 4] = [
    ("actix_web_grants", "protect", CHANGES),
    ("actix_web_grants", "has_permissions", CHANGES),
    ("actix_web_grants", "has_roles", CHANGES),
    ("utoipa", "path", "adds items beside the function"),
];
const CHANGES: &str = "changes the arguments of the function";

/// The attribute that exempts a handler.
const EXEMPTION: &str = "no_rate_limit";

/// Our own attributes.
pub(crate) const OURS: [&str; 3] = [Kind::ALL[0].name(), Kind::ALL[1].name(), EXEMPTION];

/// The user's item without our own attributes.
#[derive(Default)]
pub(crate) struct Item {
    /// All attributes that are not ours.
    pub(crate) attributes: Vec<Attribute>,
    /// The attributes with limits, in source order: first the one that is being expanded, if it is above this
    /// item.
    pub(crate) limits: Vec<(Kind, Attribute)>,
    /// The path of an attribute of the other kind below the one that is being expanded. Inside of a block the
    /// path may be without an import, so it is not recorded.
    pub(crate) other_kind: Option<Path>,
    /// `#[no_rate_limit]`.
    pub(crate) exemption: Option<Attribute>,
    /// The tokens after the attributes: visibility, signature and body of a function.
    pub(crate) rest: TokenStream,
}

impl Item {
    /// Separates our attributes from the others. They may be in path form and below other attributes.
    pub(crate) fn split(item: TokenStream) -> Self {
        let parser =
            |input: ParseStream<'_>| Ok((Attribute::parse_outer(input)?, input.parse::<TokenStream>()?));
        let Ok((all, rest)) = parser.parse2(item.clone()) else {
            return Self { rest: item, ..Self::default() };
        };
        let mut item = Self { rest, ..Self::default() };
        for attribute in all {
            let name = last_segment(&attribute);
            match Kind::named(&name) {
                Some(kind) => item.limits.push((kind, attribute)),
                None if name == EXEMPTION => item.exemption = Some(attribute),
                None => item.attributes.push(attribute),
            }
        }
        item
    }

    /// The item below `#[rate_limit(arguments)]`, or below the other kind, which is being expanded.
    pub(crate) fn below(kind: Kind, arguments: TokenStream, item: TokenStream) -> Self {
        let meta = Meta::List(MetaList {
            path: Ident::new(kind.name(), Span::call_site()).into(),
            delimiter: MacroDelimiter::Paren(Paren::default()),
            tokens: arguments,
        });
        let (pound_token, bracket_token) = Default::default();
        let expanded = Attribute { pound_token, style: AttrStyle::Outer, bracket_token, meta };
        let mut item = Self::split(item);
        let other = item.limits.iter().find(|(other, _)| *other != kind);
        item.other_kind = other.map(|(_, attribute)| attribute.path().clone());
        item.limits.insert(0, (kind, expanded));
        item
    }

    /// Our own attributes.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Attribute> {
        self.limits.iter().map(|(_, attribute)| attribute).chain(&self.exemption)
    }

    /// The kind of the item.
    pub(crate) fn kind(&self) -> ItemKind {
        item_kind::of(&self.rest)
    }

    /// The paths of the route attributes, which also have the parameters of the scopes around them.
    pub(crate) fn routes(&self, scope: &[String]) -> Vec<Route> {
        let routes = self.attributes.iter().filter(|attribute| is_route(attribute));
        let mut routes: Vec<Route> = routes.filter_map(Route::from_attribute).collect();
        for route in &mut routes {
            route.parameters.extend_from_slice(scope);
        }
        routes
    }

    /// The path of `#[actix_web::scope]`, if that attribute is in view.
    pub(crate) fn scope(&self) -> Option<Route> {
        self.attributes
            .iter()
            .find(|attribute| last_segment(attribute) == "scope")
            .and_then(Route::from_attribute)
    }

    /// Returns true if a route attribute is in view, including in a `cfg_attr`.
    pub(crate) fn has_route(&self) -> bool {
        self.attributes.iter().any(|attribute| {
            is_route(attribute)
                || conditional(attribute).is_some_and(|tokens| has_word(tokens, &ROUTE_ATTRIBUTES))
        })
    }

    /// A `cfg_attr` with one of our attributes, whose condition is not evaluated yet.
    pub(crate) fn conditional(&self) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|attribute| conditional(attribute).is_some_and(|tokens| has_word(tokens, &OURS)))
    }

    /// The attributes that do not work below ours, and their effect.
    pub(crate) fn misplaced(&self) -> impl Iterator<Item = (&Attribute, &'static str)> {
        self.attributes.iter().filter_map(|attribute| {
            let segments = &attribute.path().segments;
            let name = last_segment(attribute);
            let known = ABOVE_ONLY
                .iter()
                .find(|(of, known, _)| name == *known && (segments.len() == 1 || segments[0].ident == of));
            known.map(|(_, _, effect)| (attribute, *effect))
        })
    }

    /// Attributes of the wrapper, and of the user's function. A function beside the wrapper gets copies of
    /// the attributes that would not apply to it.
    pub(crate) fn split_attributes(&self, is_beside: bool) -> (Vec<&Attribute>, Vec<&Attribute>) {
        let is_plain = |attribute: &Attribute, name: &&str| attribute.path().is_ident(name);
        let (mut wrapper, mut function) = (Vec::new(), Vec::new());
        for attribute in &self.attributes {
            let is_of_wrapper = belongs_to_wrapper(attribute);
            // An expectation on both would be fulfilled by only one.
            if is_of_wrapper && !(is_beside && is_plain(attribute, &"expect")) {
                wrapper.push(attribute);
            }
            if !is_of_wrapper || is_beside && COPIED.iter().any(|name| is_plain(attribute, name)) {
                function.push(attribute);
            }
        }
        (wrapper, function)
    }
}

impl ToTokens for Item {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        for attribute in &self.attributes {
            attribute.to_tokens(tokens);
        }
        tokens.extend(self.rest.clone());
    }
}

fn is_route(attribute: &Attribute) -> bool {
    ROUTE_ATTRIBUTES.contains(&last_segment(attribute).as_str())
}

/// The arguments of a `cfg_attr`.
fn conditional(attribute: &Attribute) -> Option<TokenStream> {
    let list = attribute.path().is_ident("cfg_attr").then(|| attribute.meta.require_list());
    list.and_then(Result::ok).map(|list| list.tokens.clone())
}

fn last_segment(attribute: &Attribute) -> String {
    attribute.path().segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default()
}

fn belongs_to_wrapper(attribute: &Attribute) -> bool {
    let name = last_segment(attribute);
    let of_the_language =
        attribute.path().get_ident().is_some() && WRAPPER_ATTRIBUTES.contains(&name.as_str());
    of_the_language || is_route(attribute)
}
