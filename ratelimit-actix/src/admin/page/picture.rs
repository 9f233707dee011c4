//! The last minutes of a limit as a small picture: bars of admitted requests, and of denied ones above them.

use std::fmt::Write;

use maud::{Markup, html};
use ratelimit_core::stats::{BARS, Bar};

use crate::admin::view::LimitView;

/// Width and height of the picture, in its own units.
const SIZE: (usize, u64) = (60, 24);

/// Draws the last ten minutes, the present on the right.
pub(super) fn picture(limit: &LimitView) -> Markup {
    let per_column = BARS / SIZE.0;
    // From the present back, so that each column but the last is full.
    let columns: Vec<_> = limit.recent.rchunks(per_column).map(sum).collect();
    let highest = columns.iter().map(|(_, all)| *all).max().unwrap_or_default();
    let (admitted_in_all, all) = sum(&limit.recent);
    // The denied requests are what is left of the whole behind the admitted ones; even a few of them are seen.
    let whole = |(_, all): (u64, u64)| height(all, highest);
    let admitted = |(admitted, all): (u64, u64)| {
        let free = u64::from(all > admitted);
        height(admitted, highest).min(height(all, highest).saturating_sub(free))
    };
    let outline = |height: &dyn Fn((u64, u64)) -> u64| {
        outline(&columns.iter().rev().copied().map(height).collect::<Vec<_>>())
    };
    let label = format!("last ten minutes: {admitted_in_all} admitted, {} denied", all - admitted_in_all);
    let view_box = format!("0 0 {} {}", SIZE.0, SIZE.1);
    html! {
        svg viewBox=(view_box) width="120" height="24" preserveAspectRatio="none" role="img" {
            title { (label) }
            @if highest > 0 {
                path class="denied" d=(outline(&whole)) {}
                path class="admitted" d=(outline(&admitted)) {}
            }
        }
    }
}

/// Requests that were admitted, and those together with the denied ones.
fn sum(bars: &[Bar]) -> (u64, u64) {
    bars.iter().fold((0, 0), |(admitted, all), bar| {
        (admitted + bar.admitted, all + bar.admitted + bar.denied + bar.would_deny)
    })
}

/// The height of a bar: at least 1 if there is anything.
fn height(count: u64, highest: u64) -> u64 {
    let scaled = u128::from(count) * u128::from(SIZE.1) / u128::from(highest.max(1));
    u64::try_from(scaled).unwrap_or(SIZE.1).max(u64::from(count > 0))
}

/// The outline of columns up to the right edge, neighbours of one height as one.
fn outline(heights: &[u64]) -> String {
    let mut path = format!("M{} {}", SIZE.0 - heights.len().min(SIZE.0), SIZE.1);
    for columns in heights.chunk_by(|one, other| one == other) {
        // Writing to a text cannot fail.
        let _ = write!(path, "V{}h{}", SIZE.1 - columns[0], columns.len());
    }
    let _ = write!(path, "V{}z", SIZE.1);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(recent: Vec<Bar>) -> LimitView {
        LimitView { recent, ..LimitView::new("k") }
    }

    fn bar(admitted: u64, denied: u64) -> Bar {
        let mut bar = Bar::default();
        (bar.admitted, bar.denied) = (admitted, denied);
        bar
    }

    #[test]
    fn the_present_is_on_the_right_and_the_highest_bar_fills_the_picture() {
        let drawn = picture(&limit(vec![bar(1, 0), bar(8, 0), bar(4, 4)])).into_string();
        // The last two bars are one column: 12 admitted and 4 denied. The one before has a sixteenth.
        assert!(drawn.contains(r#"class="denied" d="M58 24V23h1V0h1V24z""#), "{drawn}");
        assert!(drawn.contains(r#"class="admitted" d="M58 24V23h1V6h1V24z""#), "{drawn}");
        assert!(drawn.contains("last ten minutes: 13 admitted, 4 denied"), "{drawn}");
    }

    #[test]
    fn a_few_denials_are_seen_among_many_admitted_requests() {
        let drawn = picture(&limit(vec![bar(1_000, 1)])).into_string();
        assert!(drawn.contains(r#"class="denied" d="M59 24V0h1V24z""#), "{drawn}");
        assert!(drawn.contains(r#"class="admitted" d="M59 24V1h1V24z""#), "{drawn}");
    }

    #[test]
    fn a_limit_without_decisions_has_no_bars() {
        assert!(!picture(&limit(vec![bar(0, 0); 120])).into_string().contains("path"));
        assert!(!picture(&limit(Vec::new())).into_string().contains("path"));
    }

    #[test]
    fn a_picture_is_small_whatever_it_shows() {
        let busy = (0..BARS as u64).map(|number| bar(number * 7 % 23, number * 5 % 19));
        let drawn = picture(&limit(busy.collect())).into_string();
        assert!(drawn.len() < 1_000, "{}", drawn.len());
        let full = vec![bar(u64::MAX / 1_000, u64::MAX / 2_000); BARS];
        let drawn = picture(&limit(full)).into_string();
        assert!(drawn.contains(r#"class="denied" d="M0 24V0h60V24z""#), "{drawn}");
    }
}
