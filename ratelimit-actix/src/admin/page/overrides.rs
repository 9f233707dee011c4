//! The overrides as a whole.

use maud::{Markup, html};

use crate::admin::view::OverridesView;

pub(super) fn section(overrides: &OverridesView) -> Markup {
    html! {
        section aria-labelledby="overrides-title" {
            h2 id="overrides-title" { "Overrides" }
            div id="overrides" data-live {
                p { (overrides.rows) " rows for " (overrides.limits) " limits are in force, from " (overrides.source) "." }
                @if let Some(error) = &overrides.rejected {
                    p role="alert" { "Newer contents are not in force: " (error) "." }
                }
            }
        }
    }
}
