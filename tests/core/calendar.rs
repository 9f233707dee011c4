//! Calendar windows on both stores: the worked vectors, and random requests against a rule of its own, with edges, clocks that go
//! back, refunds, changed anchors, and processes whose zone data differ.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::policy::{Calendar, Weekday};
use ratelimit_core::{Check, OwnedReservation, Policy};
use serde::Deserialize;
use tests::strategies;
use tests::timed::Timed;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    why: String,
    window: String,
    zone: String,
    anchor: Option<toml::Value>,
    at: String,
    from: String,
    before: String,
}

fn micros(text: &str) -> u64 {
    u64::try_from(text.parse::<Instant>().unwrap().as_microsecond()).unwrap()
}

impl Case {
    fn calendar(&self) -> Calendar {
        let calendar = match (&*self.window, &self.anchor) {
            ("day", None) => Calendar::day(),
            ("week", None) => Calendar::week(Weekday::Monday),
            ("week", Some(toml::Value::String(day))) => Calendar::week(day.parse().unwrap()),
            ("month", None) => Calendar::month(1),
            ("month", Some(toml::Value::Integer(day))) => Calendar::month(u8::try_from(*day).unwrap()),
            ("year", None) => Calendar::year(1, 1),
            ("year", Some(toml::Value::String(day))) => {
                let (month, day) = day.split_once('-').unwrap();
                Calendar::year(month.parse().unwrap(), day.parse().unwrap())
            }
            other => panic!("{other:?}"),
        };
        calendar.try_in_zone(&self.zone).unwrap()
    }
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/calendar.toml");
    toml::from_str::<File>(&std::fs::read_to_string(path).unwrap()).unwrap().case
}

fn policy(calendar: Calendar, max: u64) -> Policy {
    Policy::builder("calendar").calendar(calendar).max(max).build()
}

const DAY: u64 = 86_400_000_000;

tests::on_both_stores! {
    fn every_vector_is_counted_from_one_edge_to_the_next(store: &Timed) {
        let cases = cases();
        assert_eq!(cases.len(), 49);
        for (number, case) in cases.iter().enumerate() {
            let (policy, place) = (policy(case.calendar(), 3), format!("{}: {}", number + 1, case.why));
            let caller = number.to_string();
            let (at, from, before) = (micros(&case.at), micros(&case.from), micros(&case.before));
            let check = |at, remaining, end: u64| {
                store.set(at);
                let outcome = store.check(&policy, &caller);
                assert!(outcome.is_allowed(), "{place}");
                let reset = Duration::from_micros(end - at);
                assert_eq!((outcome.remaining(), outcome.reset_after()), (remaining, reset), "{place}");
            };
            // Before the window, at its first instant, at that of the case, and at its last one.
            check(from - 1, 2, from);
            check(from, 2, before);
            if at > from {
                check(at, 1, before);
                store.run(store.limiter.reset(&policy, &caller)).unwrap();
                check(at, 2, before);
            }
            check(before - 1, 1, before);
            check(before - 1, 0, before);
            let denied = store.check(&policy, &caller);
            assert_eq!(denied.retry_after(), Some(Duration::from_micros(1)), "{place}");
            store.set(before);
            let next = store.check(&policy, &caller);
            assert!(next.is_allowed() && next.remaining() == 2, "{place}");
        }
    }

    fn a_count_does_not_outlive_its_month(store: &Timed) {
        // March is longer than February: as a window of March's length, February's count would still hold on 28 March.
        let policy = policy(Calendar::month(1), 2);
        store.set(micros("2026-02-01T00:00:00Z"));
        assert!(store.check(&policy, "a").is_allowed() && store.check(&policy, "a").is_allowed());
        store.set(micros("2026-02-28T23:59:59Z"));
        assert!(!store.check(&policy, "a").is_allowed());
        store.set(micros("2026-03-01T00:00:00Z"));
        assert!(store.check(&policy, "a").is_allowed());
    }

    fn processes_whose_zone_data_differ_by_an_hour_admit_no_window_twice(store: &Timed) {
        // Zone and anchor are no part of the key, so another zone stands for other data.
        let processes = ["Europe/London", "Europe/Berlin"].map(|zone| policy(Calendar::day().in_zone(zone), 10));
        let start = micros("2026-01-10T12:00:00Z");
        let mut admitted = 0;
        for minute in 0..3 * 24 * 60 {
            store.set(start + minute * 60_000_000);
            for process in &processes {
                admitted += u64::from(store.check(process, "a").is_allowed());
            }
        }
        assert_eq!(admitted, 4 * 10, "a window at each of three edges, and the one of the beginning");
    }

    fn the_process_whose_edge_comes_first_begins_the_window(store: &Timed) {
        let [early, late] = ["Europe/Berlin", "Europe/London"].map(|zone| policy(Calendar::day().in_zone(zone), 2));
        store.set(micros("2026-01-10T22:59:59Z"));
        assert!(store.check(&early, "a").is_allowed() && store.check(&late, "a").is_allowed());
        assert!(!store.check(&late, "a").is_allowed());
        store.set(micros("2026-01-10T23:00:00Z"));
        assert_eq!(store.check(&early, "a").remaining(), 1);
        assert_eq!(store.check(&late, "a").remaining(), 0);
        store.set(micros("2026-01-11T00:00:00Z"));
        assert!(!store.check(&late, "a").is_allowed() && !store.check(&early, "a").is_allowed());
    }

    fn a_changed_anchor_keeps_the_count_if_the_new_window_begins_less_than_half_a_window_later(store: &Timed) {
        let [old, near, far] = [1, 10, 20].map(|day| policy(Calendar::month(day), 5));
        for caller in ["near", "far"] {
            store.set(micros("2026-01-05T00:00:00Z"));
            assert_eq!(store.check(&old, caller).remaining(), 4);
        }
        store.set(micros("2026-01-25T00:00:00Z"));
        assert_eq!(store.check(&near, "near").remaining(), 3);
        assert_eq!(store.check(&far, "far").remaining(), 4);
        // Until the next edge of the new anchor, also where the old one had one.
        store.set(micros("2026-02-09T23:59:59Z"));
        assert_eq!(store.check(&near, "near").remaining(), 2);
        store.set(micros("2026-02-10T00:00:00Z"));
        assert_eq!(store.check(&near, "near").remaining(), 4);
    }

    fn a_clock_that_goes_back_over_an_edge_keeps_the_count(store: &Timed) {
        let policy = policy(Calendar::month(1), 3);
        store.set(micros("2026-03-01T00:00:01Z"));
        assert_eq!(store.check(&policy, "a").remaining(), 2);
        store.set(micros("2026-02-28T23:59:59Z"));
        let back = store.check(&policy, "a");
        assert_eq!((back.remaining(), back.reset_after()), (1, Duration::from_secs(1)));
        store.set(micros("2026-03-01T00:00:00Z"));
        assert_eq!(store.check(&policy, "a").remaining(), 2);
    }

    fn a_refund_counts_until_the_edge(store: &Timed) {
        let policy = policy(Calendar::month(15).in_zone("Europe/Berlin"), 3);
        let edge = micros("2026-11-14T23:00:00Z");
        let charged = |at| {
            store.set(at);
            let group = [Check::new(&policy, "a").with_cost(2)];
            store.check_all(&group).reservation(&group).unwrap().into_owned()
        };
        let before = charged(edge - 2);
        store.set(edge - 1);
        store.refund(before.as_reservation());
        assert_eq!(store.peek(&policy, "a").remaining(), 3);
        let late = charged(edge - 1);
        let next = charged(edge);
        store.refund(late.as_reservation());
        assert_eq!(store.peek(&policy, "a").remaining(), 1, "not of the later window");
        store.refund(next.as_reservation());
        assert_eq!(store.peek(&policy, "a").remaining(), 3);
    }

    fn limits_of_several_calendars_are_judged_together(store: &Timed) {
        let monthly = Policy::builder("month").calendar(Calendar::month(1).in_zone("Asia/Tokyo")).max(5).build();
        let daily = Policy::builder("day").calendar(Calendar::day().in_zone("America/New_York")).max(2).build();
        let minute = Policy::new("minute", 3, Duration::from_secs(60));
        let group = [&monthly, &daily, &minute].map(|policy| Check::new(policy, "a"));
        let mut admitted = Vec::new();
        for hour in 0..60 {
            store.set(micros("2026-11-29T12:00:30Z") + hour * 3_600_000_000);
            if store.check_all(&group).is_allowed() {
                admitted.push(hour);
            }
        }
        // Until the day ends at 05:00 UTC; the month at 15:00 UTC of the 30th.
        assert_eq!(admitted, [0, 1, 17, 18, 41, 42]);
    }

    fn random_requests_of_one_zone_are_decided_by_the_rule(store: &Timed) {
        agrees_with_the_rule("one", store, ["Europe/Berlin"; 3], [1; 3]);
        agrees_with_the_rule("last", store, ["Africa/Cairo"; 3], [31; 3]);
    }

    fn random_requests_of_processes_with_other_zone_data_are_decided_by_the_rule(store: &Timed) {
        agrees_with_the_rule("data", store, ["Europe/Berlin", "Europe/London", "Asia/Kolkata"], [1; 3]);
    }

    fn random_requests_under_a_changed_anchor_are_decided_by_the_rule(store: &Timed) {
        agrees_with_the_rule("anchor", store, ["UTC"; 3], [1, 10, 20]);
    }
}

/// The rule of the count, in other words than the code: a plain record of one window.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    start: u64,
    count: u64,
}

impl Model {
    /// Brings the count to the window that an instant is in.
    fn bring(&mut self, now: u64, (from, before): (u64, u64)) {
        if self.count == 0 || self.start > now {
            self.start = from;
        } else if from > self.start && 2 * (from - self.start) > before - from {
            *self = Self { start: from, count: 0 };
        }
    }
}

/// The window of an instant, by search: edges of months from the dates of all hours around.
fn window(day: i8, zone: &TimeZone, now: u64) -> (u64, u64) {
    let second = |at: u64| Instant::from_second(i64::try_from(at / 1_000_000).unwrap()).unwrap();
    let edges = (-2i16..=2).map(|month| {
        let today = zone.to_datetime(second(now)).date();
        let index = today.year() * 12 + i16::from(today.month()) - 1 + month;
        let first =
            jiff::civil::Date::new(index.div_euclid(12), i8::try_from(index.rem_euclid(12) + 1).unwrap(), 1)
                .unwrap();
        let date = first.with().day(day.min(first.days_in_month())).build().unwrap();
        let midnight = date.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second() - 26 * 3600;
        let hours = (0..52 * 4).map(|quarter| midnight + quarter * 900);
        let found =
            hours.into_iter().find(|at| zone.to_datetime(Instant::from_second(*at).unwrap()).date() >= date);
        u64::try_from(found.unwrap()).unwrap() * 1_000_000
    });
    let edges: Vec<u64> = edges.collect();
    let from = edges.iter().filter(|edge| **edge <= now).max().unwrap();
    (*from, *edges.iter().filter(|edge| **edge > now).min().unwrap())
}

/// What happens next: how the clock moves, which process asks, and what it does.
#[derive(Clone, Debug)]
struct Event {
    step: Step,
    process: usize,
    cost: u64,
    refund: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    By(i64),
    /// To so many microseconds from the next edge of the process.
    Edge(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let hour = 3_600_000_000;
    let step = prop_oneof![
        6 => (0..DAY.cast_signed()).prop_map(Step::By),
        3 => prop_oneof![Just(-1), Just(0), Just(1), Just(hour), Just(-hour)].prop_map(Step::Edge),
        1 => prop_oneof![Just(-1), Just(-2 * hour), Just(-40 * DAY.cast_signed())].prop_map(Step::By),
        1 => Just(Step::By(40 * DAY.cast_signed())),
    ];
    let event = (step, 0..3usize, 0..4u64, prop::bool::weighted(0.15));
    let event = event.prop_map(|(step, process, cost, refund)| Event { step, process, cost, refund });
    prop::collection::vec(event, 1..60)
}

fn agrees_with_the_rule(on: &str, store: &Timed, zones: [&str; 3], days: [u8; 3]) {
    let processes = zones.iter().zip(days).map(|(zone, day)| {
        let calendar = Calendar::month(day).try_in_zone(zone).unwrap();
        (policy(calendar, 5), TimeZone::get(zone).unwrap(), i8::try_from(day).unwrap())
    });
    let processes: Vec<_> = processes.collect();
    let mut runner =
        TestRunner::new(Config { cases: strategies::cases("CALENDAR_CASES", 60), ..Config::default() });
    let run = std::cell::Cell::new(0);
    let played = runner.run(&events(), |events| {
        run.set(run.get() + 1);
        let caller = format!("{on}/{}", run.get());
        let (mut now, mut model) = (micros("2026-02-20T00:00:00Z"), Model::default());
        // The last charge: its instant, its window, and its units.
        let mut charge: Option<(u64, (u64, u64), u64, OwnedReservation)> = None;
        for Event { step, process, cost, refund } in events {
            let (policy, zone, day) = &processes[process];
            let (_, before) = window(*day, zone, now);
            now = match step {
                Step::By(by) => now.saturating_add_signed(by),
                Step::Edge(by) => before.saturating_add_signed(by),
            };
            store.set(now);
            let span = window(*day, zone, now);
            if refund && let Some((at, span, units, charge)) = charge.take() {
                store.refund(charge.as_reservation());
                if (span.0..span.1).contains(&now) {
                    model.bring(now, span);
                }
                if now < span.1 && model.start <= at {
                    model.count -= units.min(model.count);
                }
                continue;
            }
            let group = [Check::new(policy, &caller).with_cost(cost)];
            let outcome = store.check_all(&group);
            model.bring(now, span);
            let fits = model.count + cost <= 5;
            prop_assert_eq!(outcome.is_allowed(), fits, "{} {:?} {:?}", now, model, span);
            if fits {
                model.count += cost;
                charge = Some((now, span, cost, outcome.reservation(&group).unwrap().into_owned()));
            } else {
                let wait = Duration::from_micros(span.1 - now);
                prop_assert_eq!(outcome.retry_after(), Some(wait));
            }
            prop_assert_eq!(outcome.outcomes()[0].remaining(), 5 - model.count);
        }
        Ok(())
    });
    played.unwrap();
}
