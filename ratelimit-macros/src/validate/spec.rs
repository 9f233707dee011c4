//! A handler with the arguments of its limits. Its expansion is used only if no mistake was recorded.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{Attribute, ExprPath};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::args::{Args, Argument, Written};
use crate::parse::bounds::MAX_GROUP;
use crate::parse::by::{By, Parameter, RouteCheck};
use crate::parse::item::Item;
use crate::parse::kind::Kind;
use crate::parse::route::Route;
use crate::parse::suggest::nearest;
use crate::parse::tokens::find_word;
use crate::validate::arguments::{read, read_attribute};
use crate::validate::counts;
use crate::validate::handler::Handler;

/// A handler and its limits.
pub(crate) struct HandlerSpec {
    /// The value of `crate = ..`.
    pub(crate) facade: Option<ExprPath>,
    pub(crate) handler: Handler,
    /// The arguments of each limit.
    pub(crate) limits: Vec<Args>,
    /// The path of a stacked attribute of the other kind. Without a use of it, the compiler would report its
    /// import.
    pub(crate) other_kind: Option<syn::Path>,
}

/// Reads all stacked attributes and the function, and records all mistakes.
pub(crate) fn read_function(
    attribute: &Written,
    item: &Item,
    diagnostics: &mut Diagnostics,
) -> Result<HandlerSpec, Reported> {
    let mut group = vec![read(attribute, diagnostics)];
    for (kind, attribute) in &item.stacked {
        group.push(read_attribute(*kind, attribute, diagnostics));
    }
    if let Some(exemption) = &item.exemption {
        report_contradiction(exemption, diagnostics.kind, diagnostics);
    }
    let other_kind = item.other_kind(attribute.kind);
    let spec = handler(item, group, None, &item.routes(), None, diagnostics)?;
    Ok(HandlerSpec { other_kind, ..spec })
}

/// Reports a `#[no_rate_limit]` next to limits.
pub(crate) fn report_contradiction(
    exemption: &Attribute,
    limit: Kind,
    diagnostics: &mut Diagnostics,
) -> Reported {
    let message = format!("#[no_rate_limit] and {limit} contradict each other here; remove one of them");
    diagnostics.error(exemption, message)
}

/// Joins a handler with the arguments of all its attributes.
pub(crate) fn handler(
    item: &Item,
    group: Vec<Args>,
    owner: Option<&str>,
    routes: &[Route],
    inherited_facade: Option<&ExprPath>,
    diagnostics: &mut Diagnostics,
) -> Result<HandlerSpec, Reported> {
    let inner = inner_name(&group, diagnostics);
    let handler = Handler::parse(item, owner, inner.as_ref(), diagnostics);
    if let Ok(handler) = &handler
        && group.len() > MAX_GROUP
    {
        let found = group.len();
        let message = format!("a handler can have at most {MAX_GROUP} limits, found {found}; remove some");
        diagnostics.error(&handler.signature.ident, message);
    }
    if let Ok(handler) = &handler {
        check_generics(handler, &group, diagnostics);
    }
    counts::check(&group, diagnostics);
    let mut facades = group.iter().filter_map(|args| args.facade.as_ref());
    let facade = facades.next();
    for other in facades {
        check_facade(facade, other, diagnostics);
    }
    for parameter in group.iter().filter_map(Args::caller).flat_map(By::parameters) {
        check_parameter(parameter, routes, diagnostics);
    }
    for by in group.iter().filter_map(Args::caller) {
        check_function(by, routes, diagnostics);
    }
    Ok(HandlerSpec {
        facade: match facade {
            Some(own) => own.value.as_ref().ok().cloned(),
            None => inherited_facade.cloned(),
        },
        handler: handler?,
        limits: group,
        other_kind: None,
    })
}

/// Reports a generic parameter of the handler in a value: all instances of the handler share one `static` with
/// the limits.
fn check_generics(handler: &Handler, group: &[Args], diagnostics: &mut Diagnostics) {
    let names: Vec<String> = handler.parameters().into_iter().map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for args in group {
        if let Some(name) = find_word(args.code.clone(), &names) {
            let message = format!(
                "the generic parameter `{name}` cannot be named in {}: all instances of the handler share its limits; name one \
                 type, or write a handler for each",
                args.kind
            );
            diagnostics.error(name, message);
        }
    }
}

/// Requires one facade per handler, because all its attributes are expanded as one.
fn check_facade(
    first: Option<&Argument<ExprPath>>,
    other: &Argument<ExprPath>,
    diagnostics: &mut Diagnostics,
) {
    if let (Some(Ok(first)), Ok(other)) = (first.map(|first| &first.value), &other.value)
        && first.to_token_stream().to_string() != other.to_token_stream().to_string()
    {
        diagnostics.error(other, "the attributes on one handler need the same `crate`; give it once");
    }
}

/// The name of the handler's own function, if one of the attributes gives it.
fn inner_name(group: &[Args], diagnostics: &mut Diagnostics) -> Option<Ident> {
    let mut given = group.iter().filter_map(|args| args.inner.as_ref());
    let first = given.next()?;
    if let Some(other) = given.next() {
        diagnostics.error(&other.keyword, "a handler has one function; give `inner` once");
    }
    let inner = first.value.as_ref().ok()?;
    Some(inner.clone())
}

/// Reports a function that has the name of a parameter, which was probably meant.
fn check_function(by: &By, routes: &[Route], diagnostics: &mut Diagnostics) {
    if let By::Function(path) = by
        && let Some(word) = path.path.get_ident().map(ToString::to_string)
        && routes.iter().any(|route| route.parameters.contains(&word))
    {
        let message = format!(
            "`{word}` is a parameter of the route: write `by = path(\"{word}\")`, or `by = self::{word}` for a function of \
             that name"
        );
        diagnostics.error(path, message);
    }
}

/// Checks a path parameter against the routes in view.
fn check_parameter(parameter: &Parameter, routes: &[Route], diagnostics: &mut Diagnostics) {
    let Parameter { name, span, route_check } = parameter;
    for route in routes {
        if route.parameters.iter().any(|own| own == name) {
            continue;
        }
        match route_check {
            RouteCheck::Required => {
                let scope = format!("for a parameter of an enclosing scope, write `{{path:{name}}}`");
                route.report_missing(name, *span, &scope, diagnostics);
            }
            RouteCheck::Suggest if nearest(name, route.parameters.iter().map(String::as_str)).is_some() => {
                let scope =
                    format!("for a parameter of an enclosing scope, write `key = \"{{path:{name}}}\"`");
                route.report_missing(name, *span, &scope, diagnostics);
            }
            RouteCheck::Suggest | RouteCheck::Off => {}
        }
    }
}
