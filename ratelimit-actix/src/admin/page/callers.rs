//! The callers that were denied most, and one caller under one limit.

use maud::{Markup, html};

use super::{wait, window};
use crate::admin::look::{CountView, LookView};
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
                            th scope="col" { "Of others, at most" }
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
                                button form="listed" name="listed" value={ (caller.digest) " " (caller.limit) }
                                    aria-label={ "Look at " (caller.digest) } { "Look" }
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
            @if view.is_reset { p role="status" { "What was counted for this caller is forgotten." } }
            @for count in &view.counts { (counted(count)) }
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

fn counted(count: &CountView) -> Markup {
    html! {
        dl {
            div { dt { "Key" } dd { (count.key) ", " (count.algorithm) " per " (window(count.window_us)) } }
            div { dt { "Counted" } dd {
                (count.counted)
                @if let Some(limit) = count.limit { " of " (limit) }
            } }
            @if let Some(remaining) = count.remaining { div { dt { "Remaining" } dd { (remaining) } } }
            div { dt { "A request of one unit" } dd {
                @match count.retry_after_us {
                    None => { "passes now" },
                    Some(0) => { "does not pass" },
                    Some(micros) => { "passes in " (wait(micros)) },
                }
            } }
            div { dt { "Full quota" } dd { "in " (wait(count.reset_after_us)) } }
            @if count.is_degraded { div { dt { "Outage" } dd { "counted in this process only" } } }
        }
    }
}
