//! Rules between a calendar window and other arguments.

use crate::diagnostics::Diagnostics;
use crate::parse::args::Args;
use crate::parse::calendar::{Anchor, units};

/// Records a mistake for each broken rule.
pub(crate) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    if args.window.as_ref().is_some_and(|window| window.value.is_err()) {
        return;
    }
    let Some(unit) = args.calendar_unit() else {
        let given = [
            args.zone.as_ref().map(|zone| &zone.keyword),
            args.anchor.as_ref().map(|anchor| &anchor.keyword),
        ];
        for keyword in given.into_iter().flatten() {
            let message =
                format!("`{keyword}` is only for a `window` that is one of: {}; remove it", units());
            diagnostics.error(keyword, message);
        }
        return;
    };
    let name = unit.name();
    if let Some(algorithm) = &args.algorithm
        && algorithm.value.is_ok_and(|algorithm| algorithm.name != FIXED_WINDOW)
    {
        let message = format!("`window = \"{name}\"` is counted by \"{FIXED_WINDOW}\"; remove `algorithm`");
        diagnostics.error(&algorithm.keyword, message);
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

/// The algorithm of calendar windows.
pub(crate) const FIXED_WINDOW: &str = "fixed_window";
