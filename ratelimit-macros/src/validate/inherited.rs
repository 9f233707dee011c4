//! Limits of a module or impl block, which the handlers inside inherit.

use std::rc::Rc;

use syn::ExprPath;

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, between_parentheses, value_of};
use crate::parse::code::tokens::path_text;
use crate::parse::items::item::Item;
use crate::parse::kind::Kind;
use crate::validate::arguments::read;
use crate::validate::counts;

/// What a handler has from the modules and impl blocks around it.
#[derive(Clone, Default)]
pub(crate) struct Inherited {
    /// The limits of a handler without its own. Empty if a mistake was reported in them.
    pub(crate) limits: Vec<Rc<Args>>,
    pub(crate) facade: Option<ExprPath>,
    /// The path parameters of the scopes.
    pub(crate) scope: Vec<String>,
}

impl Inherited {
    /// What the handlers inside of a module or impl block have from it and from `around`.
    pub(crate) fn read(item: &Item, around: &Self, diagnostics: &mut Diagnostics) -> Self {
        let mut inside = around.clone();
        inside.scope.extend(item.scope().into_iter().flat_map(|scope| scope.parameters));
        let limits = Diagnostics::collect(diagnostics.kind, |own| {
            let limits = around.limits_of(item, own);
            for args in &limits {
                if let Some(inner) = &args.inner {
                    let message = format!(
                        "`inner` names one function; put it on the handler, such as \
                         `#[{}(max = 10, inner = user_body)]`",
                        args.kind.name()
                    );
                    own.error(&inner.keyword, message);
                }
            }
            Ok(limits)
        });
        inside.limits = limits.unwrap_or_else(|errors| {
            diagnostics.push(errors);
            Vec::new()
        });
        inside.facade = facade(&inside.limits).cloned().or(inside.facade);
        inside
    }

    /// The limits of an item: its own or these. A bare `#[rate_limit]` means these.
    pub(crate) fn limits_of(&self, item: &Item, diagnostics: &mut Diagnostics) -> Vec<Rc<Args>> {
        if item.limits.is_empty() {
            return self.limits.clone();
        }
        let mut limits = Vec::new();
        for (kind, attribute) in &item.limits {
            let is_bare =
                *kind == Kind::Rate && between_parentheses(attribute).is_some_and(|args| args.is_empty());
            if is_bare && !self.limits.is_empty() {
                limits.extend(self.limits.iter().cloned());
            } else {
                limits.push(Rc::new(read(*kind, attribute, diagnostics)));
            }
        }
        if let Some(exemption) = &item.exemption {
            let limit = item.limits[0].0;
            let message =
                format!("#[no_rate_limit] and {limit} contradict each other here; remove one of them");
            diagnostics.error(exemption, message);
        }
        counts::check(&limits, diagnostics);
        check_facades(&limits, diagnostics);
        limits
    }
}

/// The value of `crate = ..`.
pub(crate) fn facade(limits: &[Rc<Args>]) -> Option<&ExprPath> {
    limits.iter().find_map(|args| value_of(args.facade.as_ref()))
}

/// Requires one facade for all attributes of an item, which are expanded as one.
fn check_facades(limits: &[Rc<Args>], diagnostics: &mut Diagnostics) {
    let mut facades = limits.iter().filter_map(|args| value_of(args.facade.as_ref()));
    let Some(first) = facades.next() else { return };
    for other in facades.filter(|other| path_text(other) != path_text(first)) {
        diagnostics.error(other, "the attributes on one handler need the same `crate`; give it once");
    }
}
