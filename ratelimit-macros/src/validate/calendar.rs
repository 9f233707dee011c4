//! Rules between a calendar window and other arguments.

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, value_of};
use crate::parse::values::calendar::{Anchor, calendar_units};
use crate::parse::values::window::grammar;

/// The algorithm of calendar windows.
pub(super) const ALGORITHM: &str = "fixed_window";

/// Records a mistake for each broken rule.
pub(super) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    if args.window.as_ref().is_some_and(|window| window.value.is_err()) {
        return;
    }
    let Some(unit) = args.calendar_unit() else {
        for keyword in args.present(|usage| matches!(usage.name, "zone" | "anchor")) {
            let message =
                format!("`{keyword}` is only for a `window` that is one of: {}; remove it", calendar_units());
            diagnostics.error(keyword, message);
        }
        return;
    };
    let name = unit.name();
    if let Some(algorithm) = &args.algorithm
        && algorithm.value.is_ok_and(|algorithm| algorithm.name != ALGORITHM)
    {
        let message = format!("`window = \"{name}\"` is counted by \"{ALGORITHM}\"; remove `algorithm`");
        diagnostics.error(&algorithm.keyword, message);
    }
    if let Some(block) = value_of(args.block.as_ref()) {
        let example = grammar::format(block.micros);
        let message = format!(
            "`block` is not for `window = \"{name}\"`, whose counts end with the {name}; remove it, or write it for a second \
             limit with a window of one length: `window = \"{example}\", block = \"{example}\"`"
        );
        diagnostics.error_at(block.span, message);
    }
    if let Some(anchor) = &args.anchor {
        let without = "a day begins with its first instant; remove `anchor`".to_owned();
        match (&anchor.value, unit.anchor_example()) {
            (Ok(Anchor::Fixed(day, span)), example) if !unit.takes(*day) => {
                let example = example.map(|example| {
                    format!("a {name} does not begin on such a day; write for example `{example}`")
                });
                diagnostics.error_at(*span, example.unwrap_or(without));
            }
            (Ok(Anchor::PerRequest(_)), None) => {
                diagnostics.error(&anchor.keyword, without);
            }
            _ => {}
        }
    }
}
