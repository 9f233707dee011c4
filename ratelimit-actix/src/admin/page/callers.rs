//! The callers that were denied most, and one caller under one limit.

use maud::{Markup, html};
use ratelimit_core::overrides::Origin;

use super::limits::text;
use super::words::wait;
use crate::admin::look::{CountView, CountedView, LookView, NumbersFrom};
use crate::admin::token::token;
use crate::admin::view::{CallersView, LimitView};

/// The callers that were denied most, with a button to look at each.
pub(super) fn section(view: &CallersView, show_callers: bool) -> Markup {
    html! {
        section aria-labelledby="callers-title" {
            h2 id="callers-title" { "Callers denied most" }
            form id="listed" method="post" action="look" { input type="hidden" name="token" value=(token()); }
            div id="callers" data-live {
                @if view.callers.is_empty() {
                    p { "No caller was denied so far." }
                } @else {
                    table {
                        caption {
                            "Counts of this process, approximate when there are many callers. A digest stands for the same "
                            "caller until this process ends."
                        }
                        thead { tr {
                            th scope="col" { "Caller" }
                            th scope="col" { "Limit" }
                            th scope="col" { "Denied" }
                            th scope="col" { "Others' among these, at most" }
                            th scope="col" { "One caller" }
                        } }
                        tbody { @for caller in &view.callers { tr {
                            th scope="row" {
                                code { (caller.digest) }
                                @if let Some(name) = caller.caller.as_ref().filter(|_| show_callers) {
                                    div class="place name" { (name) }
                                }
                            }
                            td { (caller.limit) }
                            td class="figure" { (caller.denied) }
                            td class="figure" { (caller.error) }
                            td {
                                @if caller.can_look {
                                    button form="listed" name="listed" value={ (caller.digest) " " (caller.limit) }
                                        aria-label={ "Look at " (caller.digest) } { "Look" }
                                } @else { "more than 256 bytes" }
                            }
                        } } }
                    }
                }
                @if view.not_counted > 0 {
                    p { (view.not_counted) " further denials came while the table was in use, and are not in it." }
                }
            }
        }
    }
}

/// The form for a caller that is not listed.
pub(super) fn form(limits: &[LimitView]) -> Markup {
    html! {
        section aria-labelledby="look-title" {
            h2 id="look-title" { "One caller" }
            form method="post" action="look" {
                input type="hidden" name="token" value=(token());
                p {
                    label for="limit" { "Limit" } " "
                    input id="limit" name="limit" list="names" required autocomplete="off";
                    datalist id="names" { @for limit in limits { option value=(limit.name) {} } }
                }
                p {
                    label for="caller" { "Caller" } " "
                    textarea id="caller" name="caller" rows="2" required aria-describedby="notation" {}
                }
                p id="notation" {
                    "An address (" code { "192.0.2.1" } "), a text (" code { "acct-42" } " or " code { "text 7" } "), "
                    code { "number 7" } ", " code { "everyone" } " or " code { "anonymous" }
                    "; one line for each part of a tuple."
                }
                button { "Look" }
            }
        }
    }
}

/// How the page names its caller again, to reset it: as the request did.
pub(in crate::admin) struct Subject<'a> {
    pub(in crate::admin) digest: &'a str,
    pub(in crate::admin) caller: &'a str,
}

/// One caller under one limit, with a button to reset it.
pub(super) fn look(view: &LookView, subject: &Subject<'_>) -> Markup {
    html! {
        section aria-labelledby="look-title" {
            h2 id="look-title" { "Caller " code { (view.digest) } " under " (view.limit) }
            @if let Some(name) = &view.caller { p class="name" { (name) } }
            @match (view.is_reset, view.was_counted) {
                (true, true) => p role="status" { "What was counted for this caller is forgotten." },
                (true, false) => p role="status" { "Nothing was counted for this caller, so nothing is forgotten." },
                (false, false) => p { "Nothing is counted for this caller now." },
                (false, true) => {},
            }
            @for one in &view.counts { (count(one)) }
            form method="post" action="reset" {
                input type="hidden" name="token" value=(token());
                input type="hidden" name="limit" value=(view.limit);
                input type="hidden" name="digest" value=(subject.digest);
                input type="hidden" name="caller" value=(subject.caller);
                button { "Reset: forget what is counted" }
            }
        }
    }
}

fn count(count: &CountView) -> Markup {
    let numbers = &count.numbers;
    html! {
        dl {
            div { dt { "Numbers" } dd {
                (text(numbers)) ", " (numbers.algorithm) ", key " (numbers.key) ", " (numbers.mode)
                div class="place" { (origin(count)) }
                @if let Some(bits) = count.ipv6_prefix { div class="place" { "IPv6 addresses count by /" (bits) } }
            } }
            @if let Some(counted) = &count.counted { (self::counted(counted, numbers.window_us.is_some())) }
        }
    }
}

/// Where the numbers come from.
fn origin(count: &CountView) -> Markup {
    html! {
        @match (count.origin, &count.plan) {
            (NumbersFrom::Decision, _) => { "of an earlier decision, and no longer declared" },
            (NumbersFrom::Now(Origin::Caller), _) => { "from the row of this caller in the overrides" },
            (NumbersFrom::Now(Origin::Plan), Some(plan)) => { "for requests of the plan " (plan) ", from the overrides" },
            (NumbersFrom::Now(Origin::Limit), _) => { "from the overrides of the limit" },
            _ => { "from the program" },
        }
    }
}

/// What is counted. Slots are held, and have no time at which they end.
fn counted(count: &CountedView, has_window: bool) -> Markup {
    html! {
        div { dt { @if has_window { "Counted" } @else { "Held in all" } } dd {
            @match (count.units, count.limit) {
                (Some(units), Some(limit)) => { (units) " of " (limit) },
                (Some(units), None) => { (units) },
                (None, _) => { "blocked" },
            }
        } }
        @if let Some(remaining) = count.remaining { div { dt { "Remaining" } dd { (remaining) } } }
        div { dt { "A request of one unit" } dd {
            @match (count.passes, count.retry_after_us) {
                (None, _) => { "passes if its max is larger than the count" },
                (Some(true), _) => { "passes now" },
                (_, None | Some(0)) => { "does not pass" },
                (_, Some(micros)) => { "passes in " (wait(micros)) },
            }
        } }
        @if has_window {
            div { dt { "Full quota" } dd {
                @match count.reset_after_us {
                    Some(micros) => { "in " (wait(micros)) },
                    None => { "at the next edge, which each request tells" },
                }
            } }
        }
        @if count.is_degraded { div { dt { "Outage" } dd { "counted in this process only" } } }
    }
}
