//! A handler with the arguments of its limits. Its expansion is used only if no mistake was recorded.

use std::rc::Rc;

use proc_macro2::Ident;
use syn::ExprPath;

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::args::Args;
use crate::parse::code::by::{By, Parameter};
use crate::parse::code::tokens::find_word;
use crate::parse::items::item::Item;
use crate::parse::items::members::{Owner, parameters};
use crate::parse::items::route::Route;
use crate::parse::values::bounds::MAX_GROUP;
use crate::validate::handler::Handler;
use crate::validate::inherited::{Inherited, facade};

/// A handler and its limits.
pub(crate) struct HandlerSpec {
    /// The value of `crate = ..`.
    pub(crate) facade: Option<ExprPath>,
    pub(crate) handler: Handler,
    /// The arguments of each limit.
    pub(crate) limits: Vec<Rc<Args>>,
    /// The path of an attribute of the other kind. The expansion uses it, because the compiler would report
    /// its import otherwise.
    pub(crate) other_kind: Option<syn::Path>,
}

impl HandlerSpec {
    /// Reads a function with its limits, and records all mistakes. `owner`: the impl block around it.
    pub(crate) fn read(
        item: &Item,
        owner: Option<&Owner>,
        around: &Inherited,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let limits = around.limits_of(item, diagnostics);
        let inner = inner_name(&limits, diagnostics);
        let handler = Handler::parse(item, owner.map(|owner| &*owner.name), inner.as_ref(), diagnostics);
        if let Ok(handler) = &handler {
            let found = limits.len();
            if found > MAX_GROUP {
                let message =
                    format!("a handler can have at most {MAX_GROUP} limits, found {found}; remove some");
                diagnostics.error(&handler.signature.ident, message);
            }
            check_generics(handler, owner, &limits, diagnostics);
        }
        let routes = item.routes(&around.scope);
        for by in limits.iter().filter_map(|args| args.caller()) {
            for part in by.parts() {
                let By::Path(Parameter { name, checked_at: Some(at) }) = part else { continue };
                for route in routes.iter().filter(|route| !route.parameters.contains(name)) {
                    route.report_missing(name, *at, diagnostics);
                }
            }
            check_function(by, &routes, diagnostics);
        }
        Ok(Self {
            facade: facade(&limits).or(around.facade.as_ref()).cloned(),
            handler: handler?,
            limits,
            other_kind: item.other_kind.clone(),
        })
    }
}

/// Reports a generic parameter of the handler, or of the impl block around it, in a value: all instances of
/// the handler share one `static` with the limits.
fn check_generics(
    handler: &Handler,
    owner: Option<&Owner>,
    limits: &[Rc<Args>],
    diagnostics: &mut Diagnostics,
) {
    let own = parameters(&handler.signature.generics);
    let names = own.chain(owner.into_iter().flat_map(|owner| &owner.parameters));
    let names: Vec<String> = names.map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for args in limits {
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

/// The name of the handler's own function, if an attribute has `inner`.
fn inner_name(limits: &[Rc<Args>], diagnostics: &mut Diagnostics) -> Option<Ident> {
    let mut present = limits.iter().filter_map(|args| args.inner.as_ref());
    let first = present.next()?;
    if let Some(other) = present.next() {
        diagnostics.error(&other.keyword, "a handler has one function; give `inner` once");
    }
    first.value.as_ref().ok().cloned()
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
