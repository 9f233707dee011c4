//! The page as HTML. All values are escaped by the macro; there is no script and no style in it.

mod callers;
mod limits;
mod overrides;
mod picture;
mod store;

use std::borrow::Cow;
use std::time::Duration;

use maud::{DOCTYPE, Markup, html};
use ratelimit_core::RateLimiter;
use ratelimit_core::policy::Window;

pub(super) use self::callers::Subject;
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

/// A text of at most `max` characters, and a sign that more was there.
fn cut(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A time in words: its two largest units.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A time in microseconds, in milliseconds.
fn millis(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

/// A wait in microseconds, rounded up to whole seconds.
fn wait(micros: u64) -> String {
    time(Duration::from_secs(micros.div_ceil(1_000_000)))
}

/// A window in the form of the attribute.
fn window(micros: u64) -> String {
    let window = Duration::from_micros(micros);
    Window::try_from(window).map_or_else(|_| format!("{window:?}"), |window| window.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!([cut("ab", 2), cut("aöü", 2), cut("", 0), cut("ö", 0)], ["ab", "aö…", "", "…"]);
    }

    #[test]
    fn times_have_their_two_largest_units() {
        let cases = [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3_660, "1 h 1 min"), (90_000, "1 d 1 h")];
        for (seconds, text) in cases {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
        assert_eq!(
            (millis(1_234), wait(1), wait(1_000_001)),
            ("1.23 ms".to_owned(), "1 s".to_owned(), "2 s".to_owned())
        );
        assert_eq!((window(60_000_000), window(5_400_000_000)), ("1m".to_owned(), "1h30m".to_owned()));
    }
}
