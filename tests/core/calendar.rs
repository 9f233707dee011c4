//! Calendar windows on both stores: the worked vectors, and random requests against a rule of its own, with
//! edges, clocks that go back, refunds, changed anchors, and processes whose zone data differ.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::policy::{Calendar, Weekday};
use ratelimit_core::{Check, OnError, Policy, Reservation};
use serde::Deserialize;
use tests::strategies;
use tests::timed::{Timed, reference};

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
    // A request that the store did not decide is an error, not one that this process admitted.
    Policy::builder("calendar").calendar(calendar).max(max).on_error(OnError::Deny).build()
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
                store.set_with_expiry(at);
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
            store.set_with_expiry(before);
            let next = store.check(&policy, &caller);
            assert!(next.is_allowed() && next.remaining() == 2, "{place}");
        }
    }

    fn a_count_does_not_outlive_its_month(store: &Timed) {
        // March is longer than February: as a window of March's length, February's count would still hold on
        // 28 March.
        let policy = policy(Calendar::month(1), 2);
        store.set_with_expiry(micros("2026-02-01T00:00:00Z"));
        assert!(store.check(&policy, "a").is_allowed() && store.check(&policy, "a").is_allowed());
        store.set_with_expiry(micros("2026-02-28T23:59:59Z"));
        assert!(!store.check(&policy, "a").is_allowed());
        store.set_with_expiry(micros("2026-03-01T00:00:00Z"));
        assert!(store.check(&policy, "a").is_allowed());
    }

    fn a_count_that_has_ended_ends_under_another_day_as_well(store: &Timed) {
        // Both days would be windows of one count, had the first not ended. Nothing expires: the state alone
        // tells.
        let [first, tenth] = [1, 10].map(|day| policy(Calendar::month(day), 1));
        store.set(micros("2026-01-20T00:00:00Z"));
        assert!(store.check(&first, "a").is_allowed() && !store.check(&tenth, "a").is_allowed());
        store.set(micros("2026-02-12T00:00:00Z"));
        assert!(store.check(&first, "a").is_allowed());
        store.set(micros("2026-03-02T00:00:00Z"));
        assert!(store.check(&tenth, "a").is_allowed());
    }

    fn processes_whose_zone_data_differ_by_an_hour_admit_no_window_twice(store: &Timed) {
        // Zone and anchor are no part of the key, so another zone stands for other data.
        let processes = ["Europe/London", "Europe/Berlin"].map(|zone| policy(Calendar::day().in_zone(zone), 10));
        let start = micros("2026-01-10T12:00:00Z");
        let mut admitted = 0;
        for minute in 0..3 * 24 * 60 {
            store.set_with_expiry(start + minute * 60_000_000);
            for process in &processes {
                admitted += u64::from(store.check(process, "a").is_allowed());
            }
        }
        assert_eq!(admitted, 4 * 10, "a window at each of three edges, and the one of the beginning");
    }

    fn a_count_lasts_until_its_last_window_ends_also_if_two_begin_at_one_instant(store: &Timed) {
        let new_york = || Calendar::month(1).in_zone("America/New_York");
        // Counted under the first, spent under the second, and asked for again just before the window of the
        // second ends.
        for (first, second, at, end) in [
            (Calendar::month(30), Calendar::month(31), "2027-03-10T00:00:00Z", "2027-03-31T00:00:00Z"),
            (Calendar::month(1).in_zone("America/Puerto_Rico"), new_york(), "2026-11-23T00:00:00Z", "2026-12-01T05:00:00Z"),
            (Calendar::month(1).in_zone("Europe/London"), Calendar::month(1), "2027-03-10T00:00:00Z", "2027-04-01T00:00:00Z"),
            (Calendar::year(2, 28), Calendar::year(2, 29), "2027-03-10T00:00:00Z", "2028-02-29T00:00:00Z"),
        ] {
            let (first, second) = (policy(first, 3), policy(second, 3));
            for denied_at_once in [false, true] {
                let (at, end, caller) = (micros(at), micros(end), format!("{end} {denied_at_once}"));
                store.set_with_expiry(at);
                assert!(store.check(&first, &caller).is_allowed());
                // A denial alone makes the count last as well.
                let spends = if denied_at_once { &first } else { &second };
                for remaining in [1, 0] {
                    assert_eq!(store.check(spends, &caller).remaining(), remaining, "{caller}");
                }
                let spent = store.check(&second, &caller);
                assert_eq!(spent.retry_after(), Some(Duration::from_micros(end - at)), "{caller}");
                // In steps, because a key that is written anew lives as long as it says then.
                for before in [7_200_000_000, 1_800_000_000, 1] {
                    store.set_with_expiry(end - before);
                    assert!(!store.peek(&second, &caller).is_allowed(), "{caller}: {before} microseconds before the end");
                }
                store.set_with_expiry(end);
                assert!(store.check(&second, &caller).is_allowed(), "{caller}");
            }
        }
    }

    fn a_refund_reaches_no_count_that_a_changed_anchor_began_after_the_charge(store: &Timed) {
        let [old, new] = [1, 20].map(|day| policy(Calendar::month(day), 5));
        let charged = |policy: &Policy, at| {
            store.set_with_expiry(micros(at));
            let group = [Check::new(policy, "a").with_cost(2)];
            store.check_all(&group).reservation(&group).unwrap().into_owned()
        };
        // The window of the new day had begun already at the first charge, and its count begins with the
        // second.
        let before = charged(&old, "2026-01-25T00:00:00Z");
        let after = charged(&new, "2026-01-26T00:00:00Z");
        store.refund(before.clone());
        assert_eq!(store.peek(&new, "a").remaining(), 3);
        // In a count that both days share, only what was charged in the window with which it began goes back.
        let again = charged(&old, "2026-01-27T00:00:00Z");
        store.refund(again.clone());
        assert_eq!(store.peek(&new, "a").remaining(), 1);
        store.refund(after.clone());
        assert_eq!(store.peek(&new, "a").remaining(), 3);
    }

    fn a_refund_reaches_no_count_that_began_after_the_charge_at_an_edge_before_it(store: &Timed) {
        let [fourteenth, first] = [14, 1].map(|day| policy(Calendar::month(day), 10));
        let left = |policy: &Policy, at: &str, units| {
            store.set_with_expiry(micros(at));
            let outcome = store.check_all(&[Check::new(policy, "a").with_cost(units)]);
            (outcome.is_allowed(), outcome.outcomes()[0].remaining())
        };
        assert_eq!(left(&fourteenth, "2027-02-20T00:00:00Z", 1), (true, 9));
        assert_eq!(left(&first, "2027-03-05T00:00:00Z", 1), (true, 8), "the same count");
        store.set_with_expiry(micros("2027-03-20T00:00:00Z"));
        let group = [Check::new(&first, "a").with_cost(8)];
        let charged = store.check_all(&group).reservation(&group).unwrap();
        // A count of its own, which begins at the edge of its window, before the charge.
        assert_eq!(left(&fourteenth, "2027-03-21T00:00:00Z", 10), (true, 0));
        store.refund(charged.clone());
        assert_eq!(left(&fourteenth, "2027-03-21T00:00:00Z", 1), (false, 0));
    }

    fn a_refund_reaches_no_count_that_began_empty_under_an_earlier_anchor(store: &Timed) {
        let [first, tenth] = [1, 10].map(|day| policy(Calendar::month(day), 10));
        let charged = |policy: &Policy, at: &str, units| {
            store.set_with_expiry(micros(at));
            let group = [Check::new(policy, "a").with_cost(units)];
            let outcome = store.check_all(&group);
            (outcome.outcomes()[0].remaining(), outcome.reservation(&group).unwrap().into_owned())
        };
        let (left, old) = charged(&tenth, "2027-02-25T00:00:00Z", 4);
        assert_eq!(left, 6);
        // A count of its own, of which everything is given back.
        let (left, newer) = charged(&first, "2027-03-02T00:00:00Z", 3);
        assert_eq!(left, 7);
        store.refund(newer.clone());
        let (left, newest) = charged(&tenth, "2027-03-05T00:00:00Z", 10);
        assert_eq!(left, 0);
        store.refund(old.clone());
        assert_eq!(store.peek(&tenth, "a").remaining(), 0, "what was charged to the count of February");
        store.refund(newest.clone());
        assert_eq!(store.peek(&tenth, "a").remaining(), 0, "not told from it");
        // The next window under either anchor begins a count.
        store.set_with_expiry(micros("2027-04-01T00:00:00Z"));
        assert_eq!(store.peek(&first, "a").remaining(), 10);
    }

    fn of_limits_of_a_group_over_one_count_the_first_tells_the_window(store: &Timed) {
        let policies = ["Europe/Berlin", "Europe/London"].map(|zone| policy(Calendar::day().in_zone(zone), 4));
        let [berlin, london] = &policies;
        // Berlin's day has begun, London's begins in half an hour.
        let now = micros("2026-01-10T23:30:00Z");
        let [half_an_hour, rest_of_day] = [1_800, 86_400 - 1_800].map(Duration::from_secs);
        for (caller, [first, second], wait) in [("a", [berlin, london], rest_of_day), ("b", [london, berlin], half_an_hour)] {
            store.set_with_expiry(now);
            let group = [first, second].map(|policy| Check::new(policy, caller));
            for remaining in [2, 0] {
                let outcome = store.check_all(&group);
                assert!(outcome.is_allowed() && !outcome.is_degraded());
                let told = outcome.outcomes().iter().map(|limit| (limit.remaining(), limit.reset_after()));
                assert!(told.eq([(remaining, wait); 2]), "{caller}: {outcome:?}");
            }
            let denied = store.check_all(&group);
            assert!(!denied.is_allowed() && denied.retry_after() == Some(wait), "{caller}: {denied:?}");
            store.set_with_expiry(now + u64::try_from(wait.as_micros()).unwrap());
            assert!(store.check_all(&group).is_allowed(), "{caller}: at the edge");
        }
    }

    fn requests_of_one_batch_with_other_windows_are_decided_one_after_the_other(store: &Timed) {
        let policies = ["Europe/Berlin", "Europe/London"].map(|zone| policy(Calendar::day().in_zone(zone), 4));
        let reference = reference();
        // So many that most share a call, also where several calls go at once.
        let callers: Vec<String> = (0..40).map(|caller| caller.to_string()).collect();
        for (name, order) in [("a", [0, 1, 0, 1]), ("b", [1, 0, 0, 1]), ("c", [1, 1, 0, 0])] {
            for time in ["2026-01-10T23:30:00Z", "2026-01-11T00:30:00Z"] {
                store.set_with_expiry(micros(time));
                reference.set(micros(time));
                // Tells this process the server's time: a call with windows of another time is sent again,
                // behind the others.
                let _ = store.check_all(&[Check::new(&policies[0], "first")]);
                let requests: Vec<_> = (callers.iter())
                    .flat_map(|caller| order.map(|place| (&policies[place], format!("{name} {caller}"))))
                    .collect();
                let asked = requests.iter().map(|(policy, caller)| store.limiter.check(policy, caller));
                let outcomes = store.run(async {
                    match store.server() {
                        Some(server) => server.join_in_batches(asked).await,
                        None => futures_util::future::join_all(asked).await,
                    }
                });
                for ((policy, caller), outcome) in requests.iter().zip(outcomes) {
                    let expected = reference.run(reference.limiter.check(policy, caller)).unwrap();
                    assert_eq!(outcome.unwrap(), expected, "{caller} at {time}");
                }
            }
        }
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
    /// The number of the count: each time that it begins again is another one.
    number: u32,
    start: u64,
    ends: u64,
    count: u64,
}

/// What was charged, and what is known of it.
struct Charged {
    /// The count that has it.
    number: u32,
    window: (u64, u64),
    units: u64,
    reservation: Reservation<'static>,
}

impl Model {
    /// Brings the count to the window that an instant is in.
    fn bring(&mut self, now: u64, (from, before): (u64, u64)) {
        let began_before = from > self.start && 2 * (from - self.start) > before - from;
        if self.count > 0 && self.start > now {
            (self.start, self.ends) = (from, before);
        } else if self.start > now || self.ends <= now || self.count > 0 && began_before {
            *self = Self { number: self.number + 1, start: from, ends: before, count: 0 };
        } else if self.count == 0 {
            // The next count is behind all charges of the last ones.
            (self.number, self.start) = (self.number + 1, self.start.max(from));
        }
        self.ends = self.ends.max(before);
    }

    /// Gives units back to the count that has them, if it began with their window. Never to another one.
    fn refund(&mut self, charged: &Charged, now: u64) {
        if now < charged.window.1 && self.number == charged.number && self.start == charged.window.0 {
            self.count -= charged.units;
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
        let mut charges: Vec<Charged> = Vec::new();
        for Event { step, process, cost, refund } in events {
            let (policy, zone, day) = &processes[process];
            let (_, before) = window(*day, zone, now);
            let last = now;
            now = match step {
                Step::By(by) => now.saturating_add_signed(by),
                Step::Edge(by) => before.saturating_add_signed(by),
            };
            store.set_with_expiry(now);
            let span = window(*day, zone, now);
            if now < last {
                // Behind a clock that goes back, a count that begins a second time at one edge takes the
                // charges of the first one for its own.
                charges.clear();
            }
            if refund && !charges.is_empty() {
                let refunded = charges.remove(usize::try_from(cost).unwrap() % charges.len());
                store.refund(refunded.reservation.clone());
                model.refund(&refunded, now);
                // Whether a count that is over is still stored shows if the clock goes back, so a check
                // behind it begins the next one.
                if model.ends > now {
                    continue;
                }
            }
            let group = [Check::new(policy, &caller).with_cost(cost)];
            let outcome = store.check_all(&group);
            model.bring(now, span);
            let fits = model.count + cost <= 5;
            prop_assert_eq!(outcome.is_allowed(), fits, "{} {:?} {:?}", now, model, span);
            if fits {
                model.count += cost;
                let reservation = outcome.reservation(&group).unwrap().into_owned();
                charges.push(Charged { number: model.number, window: span, units: cost, reservation });
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
