//! Calendar windows on both stores: the worked vectors, and random requests against a rule of its own, with
//! edges, clocks that go back, refunds, changed anchors, and processes whose zone data differ.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::__private_0_1::PrivateCheck as _;
use ratelimit_core::clock::{Clock, FakeClock};
use ratelimit_core::policy::{Calendar, Weekday};
use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{
    Algorithm, Check, GroupOutcome, MemoryStore, OnError, Outcome, Policy, RateLimiter, Reservation,
    Timestamp,
};
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

    fn processes_whose_zone_data_differ_by_an_hour_admit_no_window_twice(store: &Timed) {
        // Zone and anchor are no part of the key, so another zone stands for other data.
        let day = kept_beyond_its_end(store, Calendar::day());
        let processes = ["Europe/London", "Europe/Berlin"].map(|zone| policy(day.in_zone(zone), 10));
        let start = micros("2026-01-10T12:00:00Z");
        let mut admitted = 0;
        for minute in (0..3 * 24 * 60).step_by(10) {
            store.set_with_expiry(start + minute * 60_000_000);
            for process in &processes {
                admitted += u64::from(store.check(process, "a").is_allowed());
            }
        }
        assert_eq!(admitted, 4 * 10, "a window at each of three edges, and the one of the beginning");
    }

    fn a_moved_day_gains_one_quota_for_each_month_in_which_a_window_begins(store: &Timed) {
        let month = |day| policy(Calendar::month(day).clamped(), 2);
        let spent = |day: u8, at: &str| {
            store.set_with_expiry(micros(at));
            let policy = month(day);
            std::iter::repeat_with(|| store.check(&policy, "a")).take_while(Outcome::is_allowed).count()
        };
        // The day moves as often as it can: to the last one at the beginning of each month, and back.
        let mut quotas = Vec::new();
        for month in 1..=6 {
            for (day, hour) in [(1, "01T00"), (31, "01T01"), (1, "01T04"), (31, "03T05"), (15, "15T00"), (1, "20T00")] {
                quotas.push(spent(day, &format!("2027-{month:02}-{hour}:00:00Z")));
            }
        }
        // By the 31st the first window is that of December, which nothing was charged to so far.
        let first = [2, 2, 0, 0, 0, 0];
        let later = [2, 0, 0, 0, 0, 0];
        assert_eq!(quotas, [&first[..], &later.repeat(5)].concat());
    }

    fn a_refund_and_a_settlement_reach_the_window_of_their_charge(store: &Timed) {
        let day = policy(Calendar::day(), 5);
        let edge = micros("2027-03-02T00:00:00Z");
        let charged = |at| {
            store.set_with_expiry(at);
            let group = [Check::new(&day, "a").with_cost(2)];
            store.check_all(&group).reservation(&group).unwrap().into_owned()
        };
        let (settled, before) = (charged(edge - 2), charged(edge - 1));
        let after = charged(edge);
        store.run(store.limiter.settle(settled, 4)).unwrap();
        assert_eq!(store.peek(&day, "a").remaining(), 3, "the debt is of the day before");
        store.refund(before);
        assert_eq!(store.peek(&day, "a").remaining(), 3, "nothing of the day before counts");
        store.refund(after);
        assert_eq!(store.peek(&day, "a").remaining(), 5);
        // Also while the clock is in the window before.
        let last = charged(edge);
        store.set_with_expiry(edge - 1);
        store.refund(last);
        store.set_with_expiry(edge);
        assert_eq!(store.peek(&day, "a").remaining(), 5);
        // The clock goes back over the edge: what was counted there is there, and so is the debt.
        store.set_with_expiry(edge - 1);
        let again = store.peek(&day, "a");
        assert!(again.remaining() == 0 && again.reset_after() == Duration::from_micros(1), "{again:?}");
    }

    fn a_request_near_an_edge_is_one_of_the_window_that_was_chosen(store: &Timed) {
        let day = policy(Calendar::day().clamped(), 3);
        let (edge, hour) = (micros("2027-03-02T00:00:00Z"), 3_600_000_000);
        // As if the store's clock had shown the other day when the request was made.
        let day_of = |caller| Check::new(&day, caller).in_present_windows(Timestamp::from_micros(edge));
        for (window, now, at, caller) in [(1, edge + hour, edge - 1, "late"), (0, edge - hour, edge, "early")] {
            store.set(now);
            let group = [day_of(caller)[window]];
            let outcomes = [(); 3].map(|()| store.check_all(&group));
            assert!(outcomes.iter().all(|outcome| outcome.is_allowed() && outcome.outcomes()[0].at().as_micros() == at));
            let denied = store.check_all(&group);
            let end = if caller == "late" { edge } else { edge + DAY };
            assert_eq!(denied.retry_after(), Some(Duration::from_micros(end - at)), "{caller}");
            assert_eq!(store.peek(&day, caller).remaining(), 3, "{caller}: the window of the clock");
            store.set(at);
            assert_eq!(store.peek(&day, caller).remaining(), 0, "{caller}");
            let charge = Check::new(&day, caller);
            store.refund(outcomes[0].reservation(&[charge]).unwrap());
            assert_eq!(store.peek(&day, caller).remaining(), 1, "{caller}: by its instant");
        }
    }

    fn limits_of_a_group_share_a_count_while_their_windows_have_one_label(store: &Timed) {
        let policies = ["Europe/Berlin", "Europe/London"].map(|zone| policy(Calendar::day().in_zone(zone), 4));
        let [berlin, london] = &policies;
        let left = |at: &str, [first, second]: [&Policy; 2]| {
            store.set_with_expiry(micros(at));
            let outcome = store.check_all(&[first, second].map(|policy| Check::new(policy, "a")));
            (outcome.is_allowed(), outcome.outcomes().iter().map(Outcome::remaining).collect::<Vec<_>>())
        };
        // Berlin's day has begun, London's begins in half an hour.
        assert_eq!(left("2026-01-10T23:30:00Z", [berlin, london]), (true, vec![3, 3]));
        for (group, allowed, remaining) in [
            ([berlin, london], true, 1),
            ([london, berlin], false, 1),
        ] {
            assert_eq!(left("2026-01-11T00:30:00Z", group), (allowed, vec![remaining; 2]));
        }
        assert!(store.check(london, "a").is_allowed() && !store.check(berlin, "a").is_allowed());
    }

    fn requests_of_one_call_with_other_windows_are_decided_one_after_the_other(store: &Timed) {
        let policies = ["Europe/Berlin", "Europe/London"].map(|zone| policy(Calendar::day().in_zone(zone), 4));
        let reference = reference();
        // So many that most share a call, also where several calls go at once.
        let callers: Vec<String> = (0..40).map(|caller| caller.to_string()).collect();
        for (name, order) in [("a", [0, 1, 0, 1]), ("b", [1, 0, 0, 1]), ("c", [1, 1, 0, 0])] {
            for time in ["2026-01-10T23:30:00Z", "2026-01-11T00:30:00Z"] {
                store.set_with_expiry(micros(time));
                reference.set(micros(time));
                // Loads the script: a call of an unknown one is sent again, behind the others.
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
        agrees_with_the_rule("data", store, ["Europe/Berlin", "Europe/London", "Africa/Lagos"], [1; 3]);
    }

    fn random_requests_under_a_changed_anchor_are_decided_by_the_rule(store: &Timed) {
        agrees_with_the_rule("anchor", store, ["UTC"; 3], [1, 10, 31]);
    }
}

/// All of the above, while the store's own clock stands still.
#[test]
fn in_memory_a_calendar_follows_the_wall_clock_that_is_set() {
    for holds in [
        every_vector_is_counted_from_one_edge_to_the_next,
        a_count_does_not_outlive_its_month,
        processes_whose_zone_data_differ_by_an_hour_admit_no_window_twice,
        a_moved_day_gains_one_quota_for_each_month_in_which_a_window_begins,
        a_refund_and_a_settlement_reach_the_window_of_their_charge,
        a_request_near_an_edge_is_one_of_the_window_that_was_chosen,
        limits_of_a_group_share_a_count_while_their_windows_have_one_label,
        random_requests_of_one_zone_are_decided_by_the_rule,
        random_requests_of_processes_with_other_zone_data_are_decided_by_the_rule,
        random_requests_under_a_changed_anchor_are_decided_by_the_rule,
    ] {
        holds(&tests::timed::memory_with_set_wall_clock());
    }
}

/// A window of one length beside a day: each follows its own clock, and both are charged or none.
#[test]
fn in_memory_a_rate_beside_a_calendar_does_not_follow_the_wall_clock() {
    let store = tests::timed::memory();
    let minute = Policy::builder("minute").max(2).window(Duration::from_secs(3_600));
    let minute = minute.algorithm(Algorithm::FixedWindow).build();
    let day = policy(Calendar::day().in_zone("Europe/Berlin"), 3);
    let group = [Check::new(&minute, "a"), Check::new(&day, "a")];
    let left = |outcome: &GroupOutcome| outcome.outcomes().iter().map(Outcome::remaining).collect::<Vec<_>>();
    let (now, hour) = (store.clock.now(), Duration::from_secs(3_600));
    let before = micros("2026-03-01T22:50:00Z");
    store.clock.set_wall_clock(Timestamp::from_micros(before));
    let first = store.check_all(&group);
    assert_eq!(left(&first), [1, 2]);
    let [of_minute, of_day] = first.outcomes() else { panic!() };
    assert_eq!((of_minute.at(), of_day.at()), (now, Timestamp::from_micros(before)));
    assert_eq!((of_minute.reset_after(), of_day.reset_after()), (hour, hour / 6));
    // The next day begins by the wall clock: the rate is counted on, the day is not.
    store.clock.set_wall_clock(Timestamp::from_micros(before + DAY));
    let second = store.check_all(&group);
    assert_eq!(left(&second), [0, 2]);
    let denied = store.check_all(&group);
    assert_eq!((left(&denied), denied.retry_after()), (vec![0, 2], Some(hour)));
    // A refund reaches the day of each charge, and the rate.
    store.refund(second.reservation(&group).unwrap());
    assert_eq!(left(&store.peek_all(&group)), [1, 3]);
    store.clock.set_wall_clock(Timestamp::from_micros(before));
    assert_eq!(left(&store.peek_all(&group)), [1, 2]);
    store.run(store.limiter.reset(&day, "a")).unwrap();
    assert_eq!(left(&store.peek_all(&group)), [1, 3]);
    // The end of the rate comes by the store's own clock alone.
    store.clock.advance(hour);
    assert_eq!(left(&store.peek_all(&group)), [2, 3]);
}

/// A machine without a battery begins in 1970, until it has asked for the time.
#[test]
fn in_memory_counts_of_days_hold_whatever_the_clock_showed_at_the_start() {
    let clock = FakeClock::default();
    let limiter = RateLimiter::new(MemoryStore::with_max_callers(1).with_clock(clock.clone()));
    let year = policy(Calendar::year(1, 1), 1);
    let passes = |caller: &str| limiter.try_check(&year, caller).unwrap().unwrap().is_allowed();
    for wall in ["1970-01-01T00:00:10Z", "2026-12-31T23:00:00Z"] {
        clock.set_wall_clock(Timestamp::from_micros(micros(wall)));
        assert!(passes("a") && !passes("a"), "{wall}");
        // The table has room for one caller: the others share a count.
        assert!(passes("b") && !passes("c") && !passes("a"), "{wall}");
        clock.advance(Duration::from_secs(366 * 86_400));
    }
    // The year is over by the store's clock as well, so there is room.
    assert!(passes("c") && !passes("c") && passes("d"));
    // A window that lies before the store's clock began: a look at each that may be present.
    let clock = FakeClock::default();
    let limiter = RateLimiter::new(MemoryStore::new().with_clock(clock.clone()));
    let now = micros("2026-12-31T23:00:00Z");
    clock.set_wall_clock(Timestamp::from_micros(now));
    let month = policy(Calendar::month(1).clamped(), 2);
    let windows = Check::new(&month, "a").in_present_windows(Timestamp::from_micros(now));
    assert_eq!(windows.len(), 2);
    for window in windows {
        let outcome = limiter.try_check_all(&[window]).unwrap().unwrap();
        assert!(
            outcome.is_allowed() && outcome.outcomes()[0].reset_after() <= Duration::from_secs(3_600),
            "{outcome:?}"
        );
    }
}

/// A wall clock that is behind makes no count look old, and one that is ahead none look new.
#[test]
fn in_memory_a_refund_keeps_what_is_left_of_its_charge_in_a_full_table() {
    let clock = FakeClock::at(Timestamp::from_micros(micros("2027-03-02T00:00:00Z")));
    let limiter = RateLimiter::new(MemoryStore::with_max_callers(1).with_clock(clock.clone()));
    clock.set_wall_clock(Timestamp::from_micros(micros("2026-03-02T00:00:00Z")));
    let day = policy(Calendar::day(), 2);
    let group = [Check::new(&day, "a").with_cost(2)];
    let charged = limiter.try_check_all(&group).unwrap().unwrap().reservation(&group).unwrap().into_owned();
    let settled = limiter.settle(charged, 1).now_or_never();
    settled.unwrap().unwrap();
    // There is no room for another caller, whose look for some drops what is old.
    let passes = |caller: &str| limiter.try_check(&day, caller).unwrap().unwrap().is_allowed();
    assert!(passes("b") && passes("a") && !passes("a"));
}

/// A calendar whose counts a store keeps for longer than a window. In memory all limits have the zone data of
/// one process, so a count ends with its window, unless requests choose the anchor.
fn kept_beyond_its_end(store: &Timed, calendar: Calendar) -> Calendar {
    if store.server().is_some() { calendar } else { calendar.clamped() }
}

/// What was charged, and what is known of it.
struct Charged {
    label: i16,
    before: u64,
    units: u64,
    reservation: Reservation<'static>,
}

/// The window of an instant, by search: edges of months from the dates of all hours around, and the number of
/// the month in which it begins.
fn window(day: i8, zone: &TimeZone, now: u64) -> (u64, u64, i16) {
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
        (u64::try_from(found.unwrap()).unwrap() * 1_000_000, index)
    });
    let edges: Vec<(u64, i16)> = edges.collect();
    let (from, month) = edges.iter().filter(|edge| edge.0 <= now).max().unwrap();
    (*from, edges.iter().filter(|edge| edge.0 > now).min().unwrap().0, *month)
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
        1 => prop_oneof![Just(-1), Just(-hour)].prop_map(Step::By),
        1 => Just(Step::By(40 * DAY.cast_signed())),
    ];
    let event = (step, 0..3usize, 0..4u64, prop::bool::weighted(0.15));
    let event = event.prop_map(|(step, process, cost, refund)| Event { step, process, cost, refund });
    prop::collection::vec(event, 1..60)
}

/// The rule: a dictionary from the number of a month to its units.
fn agrees_with_the_rule(on: &str, store: &Timed, zones: [&str; 3], days: [u8; 3]) {
    let processes = zones.iter().zip(days).map(|(zone, day)| {
        let calendar = Calendar::month(day).try_in_zone(zone).unwrap();
        let is_one = zones[0] == zones[1] && days[0] == days[2];
        let calendar = if is_one { calendar } else { kept_beyond_its_end(store, calendar) };
        let calendar = if days[0] == days[2] { calendar } else { calendar.clamped() };
        (policy(calendar, 5), TimeZone::get(zone).unwrap(), i8::try_from(day).unwrap())
    });
    let processes: Vec<_> = processes.collect();
    let mut runner =
        TestRunner::new(Config { cases: strategies::cases("CALENDAR_CASES", 60), ..Config::default() });
    let run = std::cell::Cell::new(0);
    let played = runner.run(&events(), |events| {
        run.set(run.get() + 1);
        let caller = format!("{on}/{}", run.get());
        let (mut now, mut counts) = (micros("2026-02-20T00:00:00Z"), HashMap::<i16, u64>::new());
        let mut charges: Vec<Charged> = Vec::new();
        for Event { step, process, cost, refund } in events {
            let (policy, zone, day) = &processes[process];
            let (_, before, _) = window(*day, zone, now);
            now = match step {
                Step::By(by) if !store.may_go_back() => now.saturating_add_signed(by.max(0)),
                Step::By(by) => now.saturating_add_signed(by),
                Step::Edge(by) if !store.may_go_back() => now.max(before.saturating_add_signed(by)),
                Step::Edge(by) => before.saturating_add_signed(by),
            };
            store.set_with_expiry(now);
            let (_, before, label) = window(*day, zone, now);
            if refund && !charges.is_empty() {
                let Charged { label, before, units, reservation } =
                    charges.remove(usize::try_from(cost).unwrap() % charges.len());
                let count = counts.get_mut(&label).unwrap();
                if units == 3 {
                    // Also behind the edge.
                    store.run(store.limiter.settle(owned(&reservation), 4)).unwrap();
                    *count += 1;
                    continue;
                } else if units == 2 {
                    store.run(store.limiter.settle(owned(&reservation), 0)).unwrap();
                } else {
                    store.refund(owned(&reservation));
                }
                if now < before {
                    *count -= units;
                }
                continue;
            }
            let group = [Check::new(policy, &caller).with_cost(cost)];
            let (outcome, count) = (store.check_all(&group), counts.entry(label).or_default());
            let fits = *count + cost <= 5;
            prop_assert_eq!(outcome.is_allowed(), fits, "{} {} {}", now, label, count);
            if fits {
                *count += cost;
                let reservation = outcome.reservation(&group).unwrap().into_owned();
                charges.push(Charged { label, before, units: cost, reservation });
            } else {
                let wait = Duration::from_micros(before - now);
                prop_assert_eq!(outcome.retry_after(), Some(wait));
            }
            prop_assert_eq!(outcome.outcomes()[0].remaining(), 5u64.saturating_sub(*count));
        }
        Ok(())
    });
    played.unwrap();
}
