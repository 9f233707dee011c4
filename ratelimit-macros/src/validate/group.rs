//! Reads all attributes of one handler and joins them with its function.

use syn::Attribute;

use crate::diagnostics::{Diagnostics, Reported};
use crate::kind::Kind;
use crate::parse::args::{Args, Written};
use crate::parse::item::Item;
use crate::validate::arguments;
use crate::validate::spec::{HandlerSpec, handler};

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

/// Reads the arguments of an attribute and checks the rules between them.
pub(crate) fn read(attribute: &Written, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::parse(attribute, diagnostics);
    arguments::check(&args, attribute, diagnostics);
    args
}

/// As [`read`], for an attribute below the one that is being expanded.
pub(crate) fn read_attribute(kind: Kind, attribute: &Attribute, diagnostics: &mut Diagnostics) -> Args {
    match Written::below(kind, attribute, diagnostics) {
        Ok(attribute) => read(&attribute, diagnostics),
        Err(_) => Args::none(kind),
    }
}
