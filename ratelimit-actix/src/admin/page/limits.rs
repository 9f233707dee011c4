//! The table of limits.

use maud::{Markup, html};
use ratelimit_core::overrides::Origin;

use super::picture::picture;
use super::words::{cut, window};
use crate::admin::view::{LimitNumbers, LimitView, Numbers, RowView};

/// The limits of one page.
pub(super) fn section(limits: &[LimitView], total: usize, page: usize, pages: usize) -> Markup {
    html! {
        section aria-labelledby="limits-title" {
            h2 id="limits-title" { "Limits" }
            @if limits.is_empty() {
                p { "This program declares no limit, and none was decided so far." }
            } @else {
                div class="wide" tabindex="0" role="region" aria-labelledby="limits-title" {
                    table id="limits" data-live {
                        caption {
                            (total) " limits. Counts are those of this process since its start. A limit with several numbers "
                            "or places counts all of them. Passed: another limit denied the request."
                        }
                        thead { tr {
                            th scope="col" { "Limit" }
                            th scope="col" { "Numbers in force" }
                            th scope="col" { "Mode" }
                            th scope="col" { "Admitted" }
                            th scope="col" { "Denied" }
                            th scope="col" { "Passed" }
                            th scope="col" { "Would deny" }
                            th scope="col" { "Near limit" }
                            th scope="col" { "Degraded" }
                            th scope="col" { "Last ten minutes" }
                        } }
                        tbody { @for limit in limits { (row(limit)) } }
                    }
                }
            }
            @if pages > 1 {
                nav aria-label="Pages of limits" {
                    @if page > 1 { a rel="prev" href={ "?page=" (page - 1) } { "Previous" } " " }
                    "Page " (page) " of " (pages)
                    @if page < pages { " " a rel="next" href={ "?page=" (page + 1) } { "Next" } }
                }
            }
        }
    }
}

fn row(limit: &LimitView) -> Markup {
    let totals = limit.totals;
    let figures = [
        ("admitted", totals.admitted),
        ("denied", totals.denied),
        ("passed", totals.passed),
        ("would_deny", totals.would_deny),
        ("near_limit", totals.near_limit),
        ("degraded", totals.degraded),
    ];
    html! {
        tr data-limit=(limit.name) {
            th scope="row" {
                (limit.name)
                @for numbers in limit.numbers.iter().take(MAX_PLACES) { (place(numbers)) }
                @if limit.numbers.len() > MAX_PLACES {
                    div class="place" { "and " (limit.numbers.len() - MAX_PLACES) " more" }
                }
            }
            td {
                @for numbers in distinct(&limit.numbers) { div { (in_force(numbers)) } }
                @if limit.numbers.iter().any(|numbers| numbers.in_force.window_us.is_none()) {
                    div data-figure="held" { (limit.held) " running here" }
                }
            }
            td class="mode" { @for mode in modes(&limit.numbers) { div class=(mode) { (mode) } } }
            @for (name, figure) in figures { td class="figure" data-figure=(name) { (figure) } }
            td { (picture(limit)) }
        }
    }
}

/// Number of places and of numbers that are shown of one limit.
const MAX_PLACES: usize = 4;

/// Longest text of a closure or of a row's name that is shown, in characters.
const MAX_TEXT: usize = 60;

/// Number of rows of plans and callers that are shown of one limit.
const MAX_ROWS: usize = 3;

fn place(numbers: &LimitNumbers) -> Markup {
    html! {
        @match &numbers.place {
            Some(place) => div class="place" {
                (place.handler) " by " (cut(place.by, MAX_TEXT)) ", " (place.file) ":" (place.line)
            },
            None => div class="place" { "key " (numbers.in_force.key) },
        }
    }
}

fn in_force(limit: &LimitNumbers) -> Markup {
    let numbers = &limit.in_force;
    let overridden: Vec<_> = numbers.overridden.keys().copied().collect();
    html! {
        (text(numbers)) ", " (numbers.algorithm)
        div class="place" {
            @match &limit.program {
                None => { "from the " (limit.source) },
                Some(program) => {
                    (overridden.join(", ")) " from the overrides; the " (limit.source) " has " (text(program))
                    @if overridden.contains(&"mode") { ", " (program.mode) }
                    @if overridden.contains(&"on_error") { ", " (program.on_error) " in an outage" }
                },
            }
            "; " (numbers.on_error) " in an outage"
        }
        @for row in limit.rows.iter().take(MAX_ROWS) { div class="row" { (named(row)) } }
        @let more = (limit.plan_rows + limit.caller_rows).saturating_sub(limit.rows.len().min(MAX_ROWS));
        @if more > 0 {
            div class="row" {
                @if limit.rows.len() < MAX_ROWS { "callers with rows of their own: " (more) } @else { "further rows: " (more) }
            }
        }
    }
}

/// The numbers as a phrase.
pub(super) fn text(numbers: &Numbers) -> Markup {
    html! {
        @match numbers.max {
            Some(max) => { (max) },
            None => { "chosen for each request" },
        }
        @match (&numbers.calendar, numbers.window_us) {
            (Some(calendar), _) => { " per " (calendar) },
            (None, Some(micros)) => { " per " (window(micros)) },
            (None, None) => { " at a time" },
        }
        @if let Some(burst) = numbers.burst { ", burst " (burst) }
        @if let Some(block) = numbers.block_us { ", blocks for " (window(block)) }
    }
}

/// The row of a plan or a caller.
fn named(row: &RowView) -> Markup {
    let kind = if row.origin == Origin::Plan { "plan" } else { "caller" };
    html! {
        (kind) " " (cut(&row.name, MAX_TEXT)) ": " (text(&row.numbers))
        @if row.numbers.overridden.contains_key("mode") { ", " (row.numbers.mode) }
    }
}

/// The numbers that differ in what is shown.
fn distinct(numbers: &[LimitNumbers]) -> Vec<&LimitNumbers> {
    let mut distinct: Vec<&LimitNumbers> = Vec::new();
    for one in numbers {
        let is_shown = |other: &&LimitNumbers| in_force(other).into_string() == in_force(one).into_string();
        if distinct.len() < MAX_PLACES && !distinct.iter().any(is_shown) {
            distinct.push(one);
        }
    }
    distinct
}

fn modes(numbers: &[LimitNumbers]) -> Vec<&'static str> {
    let mut modes: Vec<_> = numbers.iter().map(|numbers| numbers.in_force.mode).collect();
    modes.sort_unstable();
    modes.dedup();
    modes
}
