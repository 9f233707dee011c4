//! The page as HTML. All values are escaped by the macro; there is no script and no style in it.

mod callers;
mod limits;
mod overrides;
mod picture;
mod store;
mod words;

use std::time::Duration;

use maud::{DOCTYPE, Markup, html};
use ratelimit_core::RateLimiter;

pub(super) use self::callers::Subject;
use self::words::time;
use super::look::{LookError, LookView};
use super::view;

/// Number of limits on one page, so that it stays below 50 KiB.
const LIMITS_PER_PAGE: usize = 15;

/// Number of callers on the page.
const CALLERS_ON_PAGE: usize = 20;

/// The page with every limit. `page` counts from 1.
pub(super) fn overview(limiter: &RateLimiter, page: usize, show_callers: bool) -> Markup {
    let (limits, store) = (view::limits(limiter, show_callers), view::store(limiter));
    let pages = limits.len().div_ceil(LIMITS_PER_PAGE).max(1);
    let page = page.clamp(1, pages);
    let shown = limits.chunks(LIMITS_PER_PAGE).nth(page - 1).unwrap_or_default();
    document(&html! {
        p id="process" data-live { "This process has counted for " (time(Duration::from_secs(store.uptime))) "." }
        p { button id="pause" type="button" hidden { "Pause" } }
        (limits::section(shown, limits.len(), page, pages))
        @if let Some(overrides) = limiter.overrides_status() { (overrides::section(&overrides)) }
        (store::section(&store))
        (callers::section(&view::callers(limiter, CALLERS_ON_PAGE, show_callers), show_callers))
        (callers::form(shown))
    })
}

/// The page about one caller.
pub(super) fn look(view: &LookView, subject: &Subject<'_>) -> Markup {
    document(&html! {
        p { a href="./" { "All limits" } }
        (callers::look(view, subject))
    })
}

/// The page about a request that has no answer.
pub(super) fn error(error: &LookError) -> Markup {
    document(&html! {
        p { a href="./" { "All limits" } }
        p role="alert" { "Not done: " (error) "." }
    })
}

fn document(content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { "Rate limits" }
                link rel="stylesheet" href="style.css";
                script src="live.js" defer {}
            }
            body {
                header { h1 { "Rate limits" } }
                main { (content) }
            }
        }
    }
}
