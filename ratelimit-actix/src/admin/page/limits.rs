//! The table of limits.

use maud::{Markup, html};

use super::picture::picture;
use super::window;
use crate::admin::in_force::InForce;
use crate::admin::view::LimitView;

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
                            "or places counts all of them."
                        }
                        thead { tr {
                            th scope="col" { "Limit" }
                            th scope="col" { "Numbers in force" }
                            th scope="col" { "Mode" }
                            th scope="col" { "Admitted" }
                            th scope="col" { "Denied" }
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
    let figures = [
        ("admitted", limit.admitted),
        ("denied", limit.denied),
        ("would_deny", limit.would_deny),
        ("near_limit", limit.near_limit),
        ("degraded", limit.degraded),
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
            td { @for numbers in distinct(&limit.numbers) { div { (in_force(numbers)) } } }
            td { @for mode in modes(&limit.numbers) { div class=(mode) { (mode) } } }
            @for (name, figure) in figures { td class="figure" data-figure=(name) { (figure) } }
            td { (picture(limit)) }
        }
    }
}

/// Number of places and of numbers that are shown of one limit.
const MAX_PLACES: usize = 4;

fn place(numbers: &InForce) -> Markup {
    html! {
        @match &numbers.place {
            Some(place) => div class="place" {
                (place.handler) " by " (short(place.by)) ", " (place.file) ":" (place.line)
            },
            None => div class="place" { "key " (numbers.key) },
        }
    }
}

/// Code of a closure, cut.
fn short(text: &str) -> String {
    const MAX: usize = 60;
    if text.chars().count() <= MAX {
        return text.to_owned();
    }
    text.chars().take(MAX).chain(['…']).collect()
}

fn in_force(numbers: &InForce) -> Markup {
    html! {
        @match numbers.max {
            Some(max) => { (max) },
            None => { "chosen for each request" },
        }
        " per " (window(numbers.window_us))
        @if let Some(burst) = numbers.burst { ", burst " (burst) }
        @if let Some(block) = numbers.block_us { ", blocks for " (window(block)) }
        ", " (numbers.algorithm)
        div class="place" { "from the " (numbers.source.as_str()) ", " (numbers.on_error) " in an outage" }
    }
}

/// The numbers that differ in what is shown.
fn distinct(numbers: &[InForce]) -> Vec<&InForce> {
    let mut distinct: Vec<&InForce> = Vec::new();
    for one in numbers {
        let is_shown = |other: &&InForce| in_force(other).into_string() == in_force(one).into_string();
        if distinct.len() < MAX_PLACES && !distinct.iter().any(is_shown) {
            distinct.push(one);
        }
    }
    distinct
}

fn modes(numbers: &[InForce]) -> Vec<&'static str> {
    let mut modes: Vec<_> = numbers.iter().map(|numbers| numbers.mode).collect();
    modes.sort_unstable();
    modes.dedup();
    modes
}
