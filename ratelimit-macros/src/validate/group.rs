//! Reads all attributes of one handler and joins them with its function.

use proc_macro2::TokenStream;
use syn::{Attribute, ExprPath};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::args::Args;
use crate::parse::item::Item;
use crate::parse::route::Route;
use crate::validate::arguments;
use crate::validate::handler::{Handler, Place};
use crate::validate::spec::{self, HandlerSpec, validate};

/// Reads all stacked attributes and the function, and records all mistakes.
pub(crate) fn read_function(
    arguments: TokenStream,
    item: &Item,
    diagnostics: &mut Diagnostics,
) -> Result<HandlerSpec, Reported> {
    let mut group = vec![read(arguments, diagnostics)];
    for attribute in item.stacked() {
        group.push(read_attribute(attribute, diagnostics));
    }
    if let Some(exemption) = item.exemption() {
        report_contradiction(exemption, diagnostics);
    }
    handler(item, group, Place::Free, &item.routes(), None, diagnostics)
}

/// Reports a `#[no_rate_limit]` next to a `#[rate_limit]`.
pub(crate) fn report_contradiction(exemption: &Attribute, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics
        .error(exemption, "#[no_rate_limit] and #[rate_limit] contradict each other here; remove one of them")
}

/// Reads the arguments of an attribute and checks the rules between them.
pub(crate) fn read(arguments: TokenStream, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::parse(arguments, diagnostics);
    arguments::check(&args, diagnostics);
    args
}

/// As [`read`], for an attribute below the one that is being expanded.
pub(crate) fn read_attribute(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::from_attribute(attribute, diagnostics);
    arguments::check(&args, diagnostics);
    args
}

/// Joins a handler with the limits of all its attributes.
pub(crate) fn handler(
    item: &Item,
    group: Vec<Args>,
    place: Place<'_>,
    routes: &[Route],
    facade: Option<&ExprPath>,
    diagnostics: &mut Diagnostics,
) -> Result<HandlerSpec, Reported> {
    let beside = item.has_route() || matches!(place, Place::Type(_));
    let inner = spec::inner_name(&group, beside, diagnostics);
    let handler = Handler::parse(item, place, inner.as_ref(), diagnostics);
    validate(group, handler, routes, facade, diagnostics)
}
