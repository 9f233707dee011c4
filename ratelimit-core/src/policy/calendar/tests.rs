//! Calendars as text, their anchors, and windows of all zones without a gap. The worked vectors are in
//! `tests/vectors/calendar.toml`.

use std::collections::HashSet;
use std::time::Duration;

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, civil};

use super::*;
use crate::check::Check;
use crate::policy::window::WindowSpan;
use crate::policy::{Algorithm, Policy, PolicyError};

const MICROS: u64 = 1_000_000;

fn micros(text: &str) -> u64 {
    u64::try_from(text.parse::<Timestamp>().unwrap().as_microsecond()).unwrap()
}

/// One calendar of each kind, with anchors that not every month has.
fn kinds() -> [Calendar; 5] {
    [
        Calendar::day(),
        Calendar::week(Weekday::Sunday),
        Calendar::month(1),
        Calendar::month(31),
        Calendar::year(2, 29),
    ]
}

/// The label of a window that begins with this day: by how many periods it is behind the one of the first of
/// January 1970, which has number 1.
fn label_of_day(unit: CalendarUnit, day: civil::Date) -> u64 {
    let epoch = civil::date(1970, 1, 1);
    let days = u64::try_from((day - epoch).get_days()).unwrap();
    let months = u64::try_from((day.year() - 1970) * 12).unwrap() + u64::from(day.month().unsigned_abs());
    match unit {
        CalendarUnit::Day => days + 1,
        // Weeks begin with a Monday: the first one with 5 January.
        CalendarUnit::Week => (days + 3) / 7 + 1,
        CalendarUnit::Month => months,
        CalendarUnit::Year => months.div_ceil(12),
    }
}

fn contains(window: WindowSpan, at: u64) -> bool {
    window.from <= at && at < window.before
}

fn local_date(zone: &TimeZone, at: u64) -> civil::Date {
    zone.to_datetime(at_second(at)).date()
}

fn at_second(at: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(at / MICROS).unwrap()).unwrap()
}

/// What the clock of a zone shows from `start` to `end`: its offset at first, and each change.
fn clock_of(zone: &TimeZone, (start, end): (u64, u64)) -> (Offset, Vec<(Timestamp, Offset)>) {
    let margin = 32 * 86_400 * MICROS;
    let [start, end] = [start - margin, end + margin].map(at_second);
    let changes = zone.following(start).map(|change| (change.timestamp(), change.offset()));
    (zone.to_offset(start), changes.take_while(|(at, _)| *at < end).collect())
}

/// The time from `start` to `end`, or what lies within `around` of a change of the zone's clock. Between two
/// changes a zone has one offset, so each of its days and weeks is as long as the next.
fn around_changes(zone: &TimeZone, (start, end): (u64, u64), around: u64) -> Vec<(u64, u64)> {
    let changes = zone.following(at_second(start)).map(|change| change.timestamp());
    let instants =
        changes.take_while(|at| *at < at_second(end)).map(|at| u64::try_from(at.as_microsecond()).unwrap());
    [start, end].into_iter().chain(instants).map(|at| (at - around, at + around)).collect()
}

/// Windows of every zone and kind since 2008 follow each other, begin with a day, and are found from every
/// instant in them. Months and years of all zones; days and weeks of some, and of the others all around
/// changes of their clocks. Many names are of zones whose clocks show the same all the time.
#[test]
fn windows_of_all_zones_and_kinds_tile_the_time_from_2008_to_2040() {
    const DAY: u64 = 86_400 * MICROS;
    let time = (micros("2008-01-01T00:00:00Z"), micros("2040-01-01T00:00:00Z"));
    let database = TimeZoneDatabase::bundled();
    let names: Vec<_> = database.available().collect();
    assert!(names.len() > 500, "{}", names.len());
    let (mut windows, mut longest, mut clocks) = (0_u64, [0; 4], HashSet::new());
    for name in &names {
        let zone = database.get(name.as_str()).unwrap();
        if !clocks.insert(clock_of(&zone, time)) {
            continue;
        }
        for calendar in kinds() {
            let spans = match calendar.unit() {
                CalendarUnit::Day if clocks.len() % 64 != 21 => around_changes(&zone, time, 2 * DAY),
                CalendarUnit::Week if clocks.len() % 64 != 21 => around_changes(&zone, time, 8 * DAY),
                _ => vec![time],
            };
            for (start, end) in spans {
                let mut window = calendar.window_in(&zone, start);
                while window.from < end {
                    let next = calendar.window_in(&zone, window.before);
                    let place = || format!("{name} {calendar} {}", window.before);
                    assert!(next.from == window.before && next.before > next.from, "{}", place());
                    // Somewhere inside, and at the last instant.
                    let inside = next.from + (next.from / 7) % next.length();
                    assert!(
                        [inside, next.before - 1].iter().all(|at| calendar.window_in(&zone, *at) == next),
                        "{}",
                        place()
                    );
                    let day = local_date(&zone, next.from);
                    assert!(
                        local_date(&zone, next.from - MICROS) < day,
                        "{}: the first instant of a day",
                        place()
                    );
                    // Some zones left a day out.
                    let is_next = next.label == window.label + 1 || name.as_str().starts_with("Pacific/");
                    assert!(is_next && next.label > window.label, "{}: the next label", place());
                    let label = label_of_day(calendar.unit(), day);
                    assert_eq!(next.label, label, "{}: the label of its first day", place());
                    let most = &mut longest[calendar.unit() as usize];
                    *most = next.length().max(*most);
                    windows += 1;
                    window = next;
                }
            }
        }
    }
    assert!(windows > 150_000, "{windows}");
    for calendar in kinds() {
        let longest = longest[calendar.unit() as usize];
        let bound = calendar.longest_us();
        assert!(longest <= bound && longest + 3 * 3_600 * MICROS > bound, "{calendar}: {longest}");
    }
}

#[test]
fn the_last_window_that_was_asked_for_is_kept_and_any_other_is_found() {
    let calendar = Calendar::month(1).in_zone("Europe/Berlin");
    let (march, may) = (micros("2026-03-15T00:00:00Z"), micros("2026-05-15T00:00:00Z"));
    let (from, before) = (micros("2026-02-28T23:00:00Z"), micros("2026-03-31T22:00:00Z"));
    for _ in 0..2 {
        let label = 12 * 56 + 3;
        assert_eq!(calendar.window_at(march), WindowSpan { from, before, label });
        assert_eq!(calendar.window_at(before - 1), WindowSpan { from, before, label });
        assert_eq!((calendar.window_at(before).from, calendar.window_at(before).label), (before, label + 1));
        assert!(contains(calendar.window_at(may), may));
    }
    // The first and the last instants that a clock may show.
    assert!(contains(calendar.window_at(0), 0));
    assert_eq!(calendar.window_at(u64::MAX), calendar.window_at(u64::MAX - 1));
}

/// By hand: 1 December 2026, a Tuesday, has number 20,789, its week 2,971, its month 684 and its year 57.
#[test]
fn a_label_is_the_number_of_the_period_in_which_the_first_day_lies() {
    let label = |calendar: Calendar, at| calendar.window_at(micros(at)).label;
    for (calendar, expected) in [
        (Calendar::day(), 20_789),
        (Calendar::month(1), 684),
        (Calendar::month(2), 683),
        (Calendar::month(31), 683),
        (Calendar::year(12, 1), 57),
        (Calendar::year(12, 2), 56),
    ] {
        assert_eq!(label(calendar, "2026-12-01T00:00:00Z"), expected, "{calendar}");
    }
    let labels = Weekday::ALL.iter().map(|day| label(Calendar::week(*day), "2026-12-02T12:00:00Z"));
    assert_eq!(labels.collect::<Vec<_>>(), [2971, 2971, 2971, 2970, 2970, 2970, 2970]);
    for calendar in
        [Calendar::day(), Calendar::week(Weekday::Thursday), Calendar::month(1), Calendar::year(1, 1)]
    {
        assert_eq!(label(calendar, "1970-01-01T00:00:00Z"), 1, "{calendar}");
    }
}

#[test]
fn many_calendars_are_told_apart() {
    let at = micros("2026-11-22T12:00:00Z");
    for zone in ["Asia/Tokyo", "America/New_York", "Africa/Cairo", "Pacific/Apia", "Asia/Kathmandu", "UTC"] {
        for day in 1..=31 {
            let calendar = Calendar::month(day).in_zone(zone);
            let expected = calendar.window_in(&TimeZone::get(zone).unwrap(), at);
            assert_eq!(calendar.window_at(at), expected, "{calendar}");
        }
    }
}

#[test]
fn a_calendar_is_a_phrase() {
    for (calendar, text) in [
        (Calendar::day(), "calendar day in UTC"),
        (Calendar::week(Weekday::Sunday).in_zone("Asia/Tokyo"), "calendar week in Asia/Tokyo from Sunday"),
        (Calendar::month(1).in_zone("Europe/Berlin"), "calendar month in Europe/Berlin from the 1st"),
        (Calendar::month(2), "calendar month in UTC from the 2nd"),
        (Calendar::month(23), "calendar month in UTC from the 23rd"),
        (Calendar::month(11), "calendar month in UTC from the 11th"),
        (Calendar::month(30), "calendar month in UTC from the 30th"),
        (Calendar::year(4, 6).in_zone("Europe/London"), "calendar year in Europe/London from 6 April"),
    ] {
        assert_eq!(calendar.to_string(), text);
    }
}

#[test]
fn an_unknown_zone_is_an_error_with_the_nearest_name() {
    for (found, meant) in [
        ("Europe/Berln", Some("Europe/Berlin")),
        ("europe/berlin", Some("Europe/Berlin")),
        ("Berlin", Some("Europe/Berlin")),
        ("new york", Some("America/New_York")),
        ("Asia/Toky", Some("Asia/Tokyo")),
        ("utc", Some("UTC")),
        ("Etc/Unknown", None),
        ("Middle Earth", None),
        ("", None),
        ("../../etc/passwd", None),
    ] {
        let error = Calendar::day().try_in_zone(found).unwrap_err();
        if meant.is_some() {
            assert_eq!(error.suggestion(), meant, "{found}");
        }
        assert!(error.to_string().starts_with(&format!("unknown time zone {found:?}")), "{error}");
    }
    let calendar = Calendar::day().try_in_zone("Europe/Berlin").unwrap();
    assert_eq!(calendar, Calendar::day().in_zone("Europe/Berlin"));
    calendar.check().unwrap();
    assert!(Calendar::day().in_zone("Europe/Berln").check().is_err());
}

/// As on systems with data for some zones, or for none.
#[test]
fn a_zone_that_the_system_lacks_comes_from_the_program() {
    let databases = [&TimeZoneDatabase::none(), &TimeZoneDatabase::bundled()];
    for name in ["US/Eastern", "EST5EDT", "Europe/Kiev"] {
        assert_eq!(find_in(databases, name).unwrap().iana_name(), Some(name));
    }
    let error = find_in(databases, "us/eastern").unwrap_err();
    assert_eq!(error.suggestion(), Some("US/Eastern"));
    assert!(find_in(databases, "Nowhere/Town").is_err());
}

#[test]
#[should_panic(expected = "unknown time zone \"Europe/Berln\", did you mean \"Europe/Berlin\"?")]
fn an_unknown_zone_is_never_another_one_in_silence() {
    Calendar::day().in_zone("Europe/Berln").window_at(0);
}

#[test]
fn an_anchor_is_a_day_that_the_window_can_have() {
    let built = |calendar| Policy::builder("k").calendar(calendar).try_build();
    for calendar in [
        Calendar::month(0),
        Calendar::month(32),
        Calendar::year(0, 1),
        Calendar::year(13, 1),
        Calendar::year(4, 31),
        Calendar::year(2, 30),
        Calendar::year(1, 0),
    ] {
        assert_eq!(built(calendar), Err(PolicyError::Anchor), "{calendar:?}");
    }
    for calendar in kinds() {
        assert_eq!(built(calendar).unwrap().calendar(), Some(&calendar));
    }
}

#[test]
fn the_nearest_day_stands_for_one_that_the_window_cannot_have() {
    let berlin = |calendar: Calendar| calendar.in_zone("Europe/Berlin");
    for (found, nearest) in [
        (Calendar::month(0), Calendar::month(1)),
        (Calendar::month(32), Calendar::month(31)),
        (Calendar::month(255), Calendar::month(31)),
        (Calendar::year(2, 30), Calendar::year(2, 29)),
        (Calendar::year(4, 31), Calendar::year(4, 30)),
        (Calendar::year(0, 0), Calendar::year(1, 1)),
        (Calendar::year(13, 200), Calendar::year(12, 31)),
    ] {
        assert_eq!(found.clamped(), nearest.clamped());
        assert_eq!(berlin(found).clamped(), berlin(nearest).clamped());
        assert_eq!(found.clamped().to_string(), nearest.to_string());
    }
}

#[test]
fn the_window_of_an_instant_has_one_of_two_labels_by_any_anchor() {
    for zone in ["UTC", "America/New_York"] {
        // Between all anchors and instants a week apart there is each distance to an edge.
        for day in (0..800).step_by(7) {
            let at = micros("2027-01-01T12:00:00Z") + day * 86_400 * MICROS;
            let weeks = Weekday::ALL.iter().map(|day| Calendar::week(*day));
            let months = (1..=31).map(Calendar::month);
            let years =
                (1..=12).flat_map(|month| (1..=31).map(move |day| Calendar::year(month, day).clamped()));
            for calendar in weeks.chain(months).chain(years).map(|calendar| calendar.in_zone(zone)) {
                let labels = calendar.windows_by_any_anchor(at).map(|window| window.label);
                assert_eq!(labels[0], labels[1] + 1, "{calendar} {at}");
                let window = calendar.window_at(at);
                assert!(labels.contains(&window.label), "{calendar} {at}");
                let kept = |calendar| Policy::builder("k").calendar(calendar).build().kept_us(window);
                let next = calendar.windows_by_any_anchor(window.before)[0].before;
                assert!(next <= window.from + kept(calendar.clamped()) + 86_400 * MICROS, "{calendar} {at}");
                assert!(calendar.moves() || window.from + kept(calendar) == window.before, "{calendar} {at}");
            }
        }
    }
}

/// Every anchor that requests may have has a place of its own.
#[test]
fn the_anchors_of_one_zone_are_found_without_a_lock() {
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo"] {
        let months: Vec<_> = (1..=31).map(Calendar::month).collect();
        let years = (1..=12).flat_map(|month| (1..=31).map(move |day| Calendar::year(month, day)));
        let years: Vec<_> = years.filter(Calendar::has_anchor).collect();
        for (calendars, number) in [(months, 31), (years, 366)] {
            let places: HashSet<_> =
                calendars.iter().map(|calendar| known::place(calendar.in_zone(zone).id)).collect();
            assert_eq!((calendars.len(), places.len()), (number, number), "{zone}");
        }
    }
}

#[test]
fn a_calendar_window_is_counted_by_a_fixed_window() {
    let builder = Policy::builder("k").calendar(Calendar::month(1));
    assert_eq!(builder.build().algorithm(), Algorithm::FixedWindow);
    let other = builder.algorithm(Algorithm::TokenBucket);
    assert_eq!(other.try_build(), Err(PolicyError::CalendarAlgorithm));
    // The later window wins.
    assert_eq!(builder.window(Duration::from_secs(60)).build().calendar(), None);
    let lease = Duration::from_millis(100);
    assert!(builder.lease(lease).try_build().is_ok(), "it ends before the edge");
}

#[test]
fn a_calendar_window_has_no_block() {
    let blocked = Policy::builder("k").calendar(Calendar::day()).block(Duration::from_secs(7 * 86_400));
    assert_eq!(blocked.try_build(), Err(PolicyError::CalendarBlock));
}

/// A check in one window has the count that every check has at an instant of it.
#[test]
fn each_window_has_a_count_of_its_own() {
    let of = |calendar| Policy::builder("k").calendar(calendar).build();
    let berlin = of(Calendar::month(15).in_zone("Europe/Berlin"));
    let [june, july, fourteenth] = ["2026-06-20T00:00:00Z", "2026-07-20T00:00:00Z", "2026-07-12T00:00:00Z"]
        .map(|text| crate::Timestamp::from_micros(micros(text)));
    let id = |policy: &Policy, at| Check::new(policy, "").state_id_at(at);
    assert_ne!(id(&berlin, june), id(&berlin, july));
    let tenth = of(Calendar::month(10));
    assert_eq!(id(&berlin, june), id(&tenth, june));
    assert_ne!(id(&tenth, june), id(&tenth, fourteenth));
    let in_june = Check::new(&berlin, "").in_window(june, 0);
    assert_eq!(in_june.state_id_at(july), id(&berlin, june));
    assert_eq!(in_june.in_window(july, 0).window, in_june.window);
    let part = berlin.per_instance(std::num::NonZeroU32::MIN);
    assert_eq!(in_june.with_policy(&part).state_id_at(july), in_june.state_id_at(july));
    let ids = |policy: &Policy| {
        let windows = Check::new(policy, "").in_present_windows(july);
        windows.iter().map(|check| check.state_id_at(july)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&berlin), [id(&berlin, july)]);
    let moving = of(Calendar::month(15).in_zone("Europe/Berlin").clamped());
    assert_eq!(ids(&moving), [id(&berlin, july), id(&berlin, june)]);
    assert_eq!(in_june.with_policy(&moving).in_present_windows(july)[0].window, in_june.window);
}

#[test]
fn the_kind_tells_counts_apart_and_zone_and_anchor_do_not() {
    let of = |calendar| Policy::builder("k").calendar(calendar).build().state_id();
    assert_eq!(of(Calendar::month(1)), of(Calendar::month(15).in_zone("Asia/Tokyo")));
    let kinds = [Calendar::day(), Calendar::week(Weekday::Monday), Calendar::month(1), Calendar::year(1, 1)];
    for (index, one) in kinds.iter().enumerate() {
        assert!(kinds[..index].iter().all(|other| of(*other) != of(*one)), "{one}");
        let window =
            Policy::builder("k").algorithm(Algorithm::FixedWindow).window(Duration::from_secs(86_400));
        assert_ne!(of(*one), window.build().state_id());
    }
}

#[test]
fn the_length_of_a_window_is_that_of_the_instant() {
    let policy = Policy::builder("k").calendar(Calendar::month(1).in_zone("Europe/Berlin")).build();
    let days = |text| policy.window_at(crate::Timestamp::from_micros(micros(text))).as_secs_f64() / 86_400.0;
    assert!((days("2026-02-10T00:00:00Z") - 28.0).abs() < 1e-9);
    assert!((days("2026-03-10T00:00:00Z") - 31.0).abs() * 24.0 - 1.0 < 1e-9);
    let plain = Policy::new("k", 1, Duration::from_secs(60));
    assert_eq!(plain.window_at(crate::Timestamp::from_micros(7)), Duration::from_secs(60));
}
