//! The last minutes of a limit as a small picture: bars of admitted requests, and of denied ones above them.

use std::fmt::Write;

use maud::{Markup, html};

use crate::admin::view::{BarView, LimitView};

/// Width and height of the picture, in its own units.
const SIZE: (usize, u64) = (60, 24);

/// Draws the last ten minutes, the present on the right.
pub(super) fn picture(limit: &LimitView) -> Markup {
    let per_column = ratelimit_core::stats::BARS / SIZE.0;
    // From the present back, so that each column but the last is full.
    let columns: Vec<BarView> =
        limit.recent.rchunks(per_column).map(|bars| bars.iter().fold(BarView::default(), add)).collect();
    let denied = |column: &BarView| column.denied + column.would_deny;
    let highest = columns.iter().map(|column| column.admitted + denied(column)).max().unwrap_or_default();
    let sum = columns.iter().fold(BarView::default(), add);
    let (mut admitted_path, mut denied_path) = (String::new(), String::new());
    for (index, column) in columns.iter().enumerate().filter(|_| highest > 0) {
        let x = SIZE.0 - 1 - index;
        let admitted = height(column.admitted, highest);
        bar(&mut admitted_path, x, 0, admitted);
        bar(
            &mut denied_path,
            x,
            admitted,
            height(denied(column), highest).min(SIZE.1 - admitted.min(SIZE.1 - 1)),
        );
    }
    let label = format!("last ten minutes: {} admitted, {} denied", sum.admitted, denied(&sum));
    html! {
        svg viewBox=(format_args!("0 0 {} {}", SIZE.0, SIZE.1)) width="120" height="24" preserveAspectRatio="none" role="img"
            aria-label=(label) {
            title { (label) }
            @if !admitted_path.is_empty() { path class="admitted" d=(admitted_path) {} }
            @if !denied_path.is_empty() { path class="denied" d=(denied_path) {} }
        }
    }
}

fn add(sum: BarView, bar: &BarView) -> BarView {
    BarView {
        admitted: sum.admitted + bar.admitted,
        denied: sum.denied + bar.denied,
        would_deny: sum.would_deny + bar.would_deny,
    }
}

/// The height of a bar: at least 1 if there is anything.
fn height(count: u64, highest: u64) -> u64 {
    let scaled = u128::from(count) * u128::from(SIZE.1) / u128::from(highest.max(1));
    u64::try_from(scaled).unwrap_or(SIZE.1).max(u64::from(count > 0))
}

/// A bar of this height, above another.
fn bar(path: &mut String, x: usize, above: u64, height: u64) {
    if height > 0 {
        // Writing to a text cannot fail.
        let _ = write!(path, "M{x} {}v-{height}h1v{height}z", SIZE.1 - above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(recent: Vec<BarView>) -> LimitView {
        LimitView { recent, ..LimitView::new("k") }
    }

    fn bar(admitted: u64, denied: u64) -> BarView {
        BarView { admitted, denied, would_deny: 0 }
    }

    #[test]
    fn the_present_is_on_the_right_and_the_highest_bar_fills_the_picture() {
        let drawn = picture(&limit(vec![bar(1, 0), bar(8, 0), bar(4, 4)])).into_string();
        // The last two bars are one column: 12 admitted and 4 denied. The one before has a sixteenth.
        assert!(drawn.contains(r#"class="admitted" d="M59 24v-18h1v18zM58 24v-1h1v1z""#), "{drawn}");
        assert!(drawn.contains(r#"class="denied" d="M59 6v-6h1v6z""#), "{drawn}");
        assert!(drawn.contains("last ten minutes: 13 admitted, 4 denied"), "{drawn}");
    }

    #[test]
    fn a_limit_without_decisions_has_no_bars() {
        assert!(!picture(&limit(vec![bar(0, 0); 120])).into_string().contains("path"));
        assert!(!picture(&limit(Vec::new())).into_string().contains("path"));
    }

    #[test]
    fn a_picture_is_small_whatever_it_shows() {
        let full = vec![bar(u64::MAX / 1_000, u64::MAX / 2_000); ratelimit_core::stats::BARS];
        let drawn = picture(&limit(full)).into_string();
        assert!(drawn.len() < 3_000, "{}", drawn.len());
        assert!(!drawn.contains("M-"), "{drawn}");
    }
}
