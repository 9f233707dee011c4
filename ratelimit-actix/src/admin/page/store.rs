//! The state of the store, as a list of terms.

use maud::{Markup, html};

use super::millis;
use crate::admin::view::{RedisView, StoreView};

pub(super) fn section(store: &StoreView) -> Markup {
    html! {
        section aria-labelledby="store-title" {
            h2 id="store-title" { "Store" }
            dl id="store" data-live {
                (term("Kind", &html! { (store.kind) }))
                (term("State", &html! { (state(store)) }))
                @if let Some(callers) = store.callers { (term("Callers in memory", &html! { (callers) })) }
                (term("Callers counted in an outage", &html! { (store.fallback_callers) " in this process" }))
                @if let Some(redis) = &store.redis { (connection(redis)) }
            }
        }
    }
}

fn term(name: &str, description: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (description) } } }
}

fn state(store: &StoreView) -> &'static str {
    match (store.is_ready, store.is_out) {
        (true, false) => "ready",
        (true, true) => "ready; a call failed lately, and limits follow their failure policies then",
        (false, _) => "not connected: limits follow their failure policies",
    }
}

fn connection(redis: &RedisView) -> Markup {
    html! {
        (term("Connections", &html! { (redis.connections) " made so far" }))
        (term("Circuit breaker", &html! { (breaker(redis)) }))
        (term("Round trip", &html! {
            @if redis.calls == 0 { "no call in the last one to two minutes" } @else {
                "p50 " (millis(redis.round_trip_p50_us)) ", p99 " (millis(redis.round_trip_p99_us)) ", at most "
                (millis(redis.round_trip_max_us)) ", of " (redis.calls) " calls in the last one to two minutes; deadline "
                (millis(redis.deadline_us))
            }
        }))
        (term("Requests per call", &html! {
            (redis.batch_mean) " on average, p99 " (redis.batch_p99) ", at most " (redis.batch_max)
        }))
        (term("Denial cache", &html! {
            (redis.cached_denials) " denials, " (redis.denial_cache_hits) " requests denied without a round trip"
        }))
        (term("Leases", &html! {
            (redis.lease_held) " units held for " (redis.lease_callers) " callers; so far " (redis.leased) " leased, "
            (redis.lease_used) " used, " (redis.lease_returned) " given back, " (redis.lease_expired) " expired"
        }))
    }
}

/// Which part is out.
fn breaker(redis: &RedisView) -> String {
    match (&redis.open_slot_ranges[..], redis.slot_ranges) {
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
    use ratelimit_core::store::ConnectionStatus;

    use super::*;

    #[test]
    fn an_open_circuit_breaker_names_its_part() {
        let mut redis = RedisView { slot_ranges: 64, ..RedisView::from(&ConnectionStatus::default()) };
        assert_eq!(breaker(&redis), "closed");
        redis.open_slot_ranges = vec![0, 63];
        assert_eq!(breaker(&redis), "open for 2 of 64 slot ranges: 0-255, 16128-16383");
        redis = RedisView { slot_ranges: 1, open_slot_ranges: vec![0], ..redis };
        assert!(breaker(&redis).starts_with("open: "));
    }
}
