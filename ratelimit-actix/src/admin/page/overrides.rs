//! The overrides as a whole.

use maud::{Markup, html};
use ratelimit_core::overrides::OverridesStatus;

use super::words::cut;

/// Longest error that is shown, in characters: it may repeat a name from the file.
const MAX_ERROR: usize = 2_000;

/// A number of things by their name in the singular.
fn number(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn section(overrides: &OverridesStatus) -> Markup {
    html! {
        section aria-labelledby="overrides-title" {
            h2 id="overrides-title" { "Overrides" }
            div id="overrides" data-live {
                p {
                    "In force: " (number(overrides.rows, "row")) " for " (number(overrides.limits, "limit")) ", from "
                    (overrides.source) "."
                }
                @if let Some(error) = &overrides.rejected {
                    p role="alert" { "Newer contents are not in force: " (cut(error, MAX_ERROR)) "." }
                }
            }
        }
    }
}
