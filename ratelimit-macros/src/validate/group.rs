//! A handler with all of its limits: reads the attributes of the group and joins them with the function.

use proc_macro2::TokenStream;
use syn::{Attribute, ExprPath};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::args::Args;
use crate::parse::item::Item;
use crate::parse::route::Route;
use crate::validate::arguments;
use crate::validate::handler::{Handler, Place};
use crate::validate::spec::{self, HandlerSpec, validate};

/// The arguments of an attribute, with the rules between them.
pub(crate) fn read(arguments: TokenStream, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::parse(arguments, diagnostics);
    arguments::check(&args, diagnostics);
    args
}

/// The same for an attribute below.
pub(crate) fn read_attribute(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::from_attribute(attribute, diagnostics);
    arguments::check(&args, diagnostics);
    args
}

/// A handler with all of its limits, whatever attribute they come from.
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
