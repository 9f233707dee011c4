//! The state of the store, as a list of terms.

use maud::{Markup, html};
use ratelimit_core::store::ConnectionStatus;

use super::words::millis;
use crate::admin::view::{StoreView, micros};

pub(super) fn section(store: &StoreView) -> Markup {
    html! {
        section aria-labelledby="store-title" {
            h2 id="store-title" { "Store" }
            dl id="store" data-live {
                (term("Kind", &html! { (store.kind) }))
                (term("State", &html! { (state(store)) }))
                @if let Some(callers) = store.status.callers { (term("Callers in memory", &html! { (callers) })) }
                (term("Callers counted in an outage", &html! { (store.status.fallback_callers) " in this process" }))
                @if let Some(status) = &store.status.connection { (connection(status)) }
            }
        }
    }
}

fn term(name: &str, description: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (description) } } }
}

fn state(store: &StoreView) -> &'static str {
    match (store.is_ready, store.status.is_out) {
        (true, false) => "ready",
        (true, true) => "ready; a call failed lately, and limits follow their failure policies then",
        (false, _) => "not connected: limits follow their failure policies",
    }
}

fn connection(status: &ConnectionStatus) -> Markup {
    let (round_trip, batch, leases) = (status.round_trip_us, status.batch, status.leases);
    #[allow(clippy::cast_precision_loss, reason = "a mean for people, with one decimal")]
    let mean = batch.sum as f64 / batch.count.max(1) as f64;
    html! {
        (term("Connections", &html! { (status.connections) " made so far" }))
        (term("Circuit breaker", &html! { (breaker(status)) }))
        (term("Round trip", &html! {
            @if round_trip.count == 0 { "no call in the last one to two minutes" } @else {
                "p50 " (millis(round_trip.p50)) ", p99 " (millis(round_trip.p99)) ", at most " (millis(round_trip.max))
                ", of " (round_trip.count) " calls in the last one to two minutes; deadline "
                (millis(micros(status.deadline)))
            }
        }))
        (term("Requests per call", &html! {
            (format!("{mean:.1}")) " on average, p99 " (batch.p99) ", at most " (batch.max)
        }))
        (term("Denial cache", &html! {
            (status.cached_denials) " denials, " (status.denial_cache_hits) " requests denied without a round trip"
        }))
        (term("Leases", &html! {
            (leases.held) " units held for " (leases.callers) " callers; so far " (leases.leased) " leased, "
            (leases.used) " used, " (leases.returned) " given back, " (leases.expired) " expired"
        }))
    }
}

/// Which part is out.
fn breaker(status: &ConnectionStatus) -> String {
    match (&status.open_slot_ranges[..], status.slot_ranges) {
        ([], _) => "closed".to_owned(),
        (_, 1) => "open: no command is sent until the server answers a probe".to_owned(),
        (open, all) => {
            let slots = 16_384 / all;
            let ranges = open.iter().map(|range| format!("{}-{}", range * slots, (range + 1) * slots - 1));
            format!("open for {} of {all} slot ranges: {}", open.len(), ranges.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_circuit_breaker_names_its_part() {
        let mut status = ConnectionStatus::default();
        status.slot_ranges = 64;
        assert_eq!(breaker(&status), "closed");
        status.open_slot_ranges = vec![0, 63];
        assert_eq!(breaker(&status), "open for 2 of 64 slot ranges: 0-255, 16128-16383");
        (status.slot_ranges, status.open_slot_ranges) = (1, vec![0]);
        assert!(breaker(&status).starts_with("open: "));
    }
}
