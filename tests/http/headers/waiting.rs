//! A client that waits for the reset or the `retry-after` of a response passes: in every style, for every
//! algorithm, whatever limits are around the handler.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix_web::dev::Service;
use actix_web::rt::System;
use actix_web::test::init_service;
use actix_web::web::{self, Data};
use actix_web::{App, HttpResponse};
use proptest::prelude::*;
use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::Clock;
use ratelimit_actix::{
    Algorithm, Check, HeaderStyle, Policy, RateLimitConfig, RateLimitMiddleware, rate_limit,
};
use tests::algorithms::shapes;
use tests::answer::{Answer, get, send};
use tests::store::{START, clocked};

const STYLES: [HeaderStyle; 4] =
    [HeaderStyle::LegacyUnix, HeaderStyle::LegacyDelta, HeaderStyle::Draft06, HeaderStyle::Draft11];

fn policies() -> impl Strategy<Value = Policy> {
    (any::<prop::sample::Index>(), 1..6u64, 1..12u64, 0..1_000u64).prop_map(
        |(shape, max, quarters, count)| {
            let policy = Policy::builder(Box::leak(format!("count-{count}").into_boxed_str()))
                .max(max)
                .window(Duration::from_millis(1_000 * quarters));
            shape.get(&shapes(policy, 4)).clone()
        },
    )
}

/// The remaining quota and the instant of the reset in microseconds, from a response at `now`.
fn quota_and_reset(answer: &Answer, style: HeaderStyle, now: u64) -> (u64, u64) {
    let number = |name: &str| answer.header(name).unwrap().parse::<u64>().unwrap();
    let after = |seconds: u64| now + seconds * 1_000_000;
    match style {
        HeaderStyle::LegacyUnix => (number("x-ratelimit-remaining"), number("x-ratelimit-reset") * 1_000_000),
        HeaderStyle::LegacyDelta => (number("x-ratelimit-remaining"), after(number("x-ratelimit-reset"))),
        HeaderStyle::Draft06 => (number("ratelimit-remaining"), after(number("ratelimit-reset"))),
        HeaderStyle::Draft11 => {
            let parameter = |limit: &str, name: &str| {
                let value = limit.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
                value.map(|value| value.parse::<u64>().unwrap())
            };
            let limits = answer.header("ratelimit").unwrap().split(", ");
            let limits = limits.map(|limit| (parameter(limit, "r").unwrap(), parameter(limit, "t")));
            let limits: Vec<_> = limits.collect();
            let waits = limits.iter().filter(|(left, _)| *left == 0).filter_map(|(_, wait)| *wait);
            (limits.iter().map(|(left, _)| *left).min().unwrap(), after(waits.max().unwrap_or(0)))
        }
        other => panic!("no reader of the quota in {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_that_waits_for_its_retry_after_passes(
        outer in policies(),
        inner in proptest::collection::vec(policies(), 1..3),
        style in 0..STYLES.len(),
        steps in proptest::collection::vec((0..6_000_000u64, any::<bool>()), 1..40),
    ) {
        let style = STYLES[style];
        System::new().block_on(async move {
            let (limiter, clock) = clocked();
            let config = RateLimitConfig::builder().headers([style]).build().unwrap();
            let mut limits = inner.into_iter();
            let inner = RateLimitMiddleware::new(limits.next().unwrap());
            let inner = limits.fold(inner, RateLimitMiddleware::and);
            // Whether the outer limit has let a request pass. Until then the inner ones are not checked, and
            // are not in the response.
            let checked = Rc::new(Cell::new(false));
            let route = web::resource("/").wrap(inner).to(HttpResponse::Ok);
            let app = App::new().app_data(config).app_data(Data::new(limiter));
            let note = Rc::clone(&checked);
            let app = app.wrap_fn(move |req, service| {
                note.set(true);
                service.call(req)
            });
            let app = init_service(app.wrap(RateLimitMiddleware::new(outer)).service(route)).await;
            for (pause, in_retry_after) in steps {
                clock.advance(Duration::from_micros(pause));
                checked.set(false);
                let first = send(&app, get("/")).await;
                let all_were_checked = checked.get();
                let (left, reset) = quota_and_reset(&first, style, clock.now().as_micros());
                let instant = match first.header("retry-after") {
                    Some(seconds) if in_retry_after => {
                        clock.now().as_micros() + seconds.parse::<u64>().unwrap() * 1_000_000
                    }
                    _ if left == 0 => reset,
                    _ => continue,
                };
                assert!(instant > clock.now().as_micros(), "nothing is left, but the response has no wait: {first:?}");
                clock.set(Timestamp::from_micros(instant));
                checked.set(false);
                let second = send(&app, get("/")).await;
                assert!(checked.get(), "{first:?}, then {second:?}");
                assert!(second.status == 200 || !all_were_checked, "{first:?}, then {second:?}");
            }
        });
    }

    #[test]
    fn the_wait_for_one_more_unit_is_the_smallest(
        policy in policies(),
        steps in proptest::collection::vec((0..4_000_000u64, 0..7u64), 1..40),
    ) {
        System::new().block_on(async move {
            let (limiter, clock) = clocked();
            for (pause, cost) in steps {
                clock.advance(Duration::from_micros(pause));
                let outcome = limiter.check_all(&[Check::new(&policy, "a").with_cost(cost)]).await.unwrap();
                let outcome = &outcome.outcomes()[0];
                let Some(wait) = outcome.next_unit_after() else {
                    assert!(outcome.remaining() > 0, "{outcome:?}");
                    continue;
                };
                assert_eq!(outcome.remaining(), 0);
                let now = clock.now().as_micros();
                let end = now + u64::try_from(wait.as_micros()).unwrap();
                for (instant, passes) in [(end - 1, false), (end, true)] {
                    clock.set(Timestamp::from_micros(instant));
                    let later = limiter.peek(&policy, "a").await.unwrap();
                    assert_eq!(later.is_allowed(), passes, "{outcome:?} at {instant}: {later:?}");
                }
                clock.set(Timestamp::from_micros(now));
            }
        });
    }
}

#[actix_web::test]
async fn the_wait_of_another_limit_survives_a_refund() {
    #[rate_limit(max = 2, window = "10s", algorithm = "sliding_window_log", key = "all")]
    #[rate_limit(
        max = 2,
        window = "10s",
        algorithm = "sliding_window_log",
        key = "failures",
        count = "failures"
    )]
    async fn fails_never() -> &'static str {
        "ok"
    }

    let (limiter, clock) = clocked();
    let app = App::new().app_data(Data::new(limiter)).route("/", web::get().to(fails_never));
    let app = init_service(app).await;
    assert_eq!(send(&app, get("/")).await.quota().unwrap(), (2, 1, START + 11));
    clock.advance(Duration::from_secs(3));
    // The first unit leaves a microsecond after ten seconds, the second three seconds later.
    assert_eq!(send(&app, get("/")).await.quota().unwrap(), (2, 0, START + 11));
    let denied = send(&app, get("/")).await;
    assert_eq!(
        (denied.status, denied.quota().unwrap(), denied.header("retry-after")),
        (429, (2, 0, START + 11), Some("8"))
    );
}

#[actix_web::test]
async fn retry_after_covers_the_limits_of_the_middleware() {
    #[rate_limit(max = 1, window = "1s", algorithm = "fixed_window")]
    async fn limited() -> &'static str {
        "ok"
    }

    let (limiter, clock) = clocked();
    let outer =
        Policy::builder("outer").max(2).window(Duration::from_secs(60)).algorithm(Algorithm::FixedWindow);
    let app = App::new().app_data(Data::new(limiter)).wrap(RateLimitMiddleware::new(outer.build()));
    let app = init_service(app.route("/", web::get().to(limited))).await;
    assert_eq!(send(&app, get("/")).await.status, 200);
    // The middleware lets it pass and has nothing left for a minute; the handler denies it for a second.
    let denied = send(&app, get("/")).await;
    assert_eq!((denied.status, denied.quota().unwrap()), (429, (2, 0, START + 60)));
    assert_eq!(denied.header("retry-after"), Some("60"));
    assert!(denied.body.ends_with("\"retryAfter\":60}"), "{}", denied.body);
    clock.advance(Duration::from_secs(60));
    assert_eq!(send(&app, get("/")).await.status, 200);
}

/// A machine that was resumed, or began before it knew the time.
#[actix_web::test]
async fn a_calendar_in_memory_follows_the_wall_clock_that_is_set() {
    #[rate_limit(max = 1, window = "day", zone = "Europe/Berlin")]
    async fn daily() -> &'static str {
        "ok"
    }

    let (limiter, clock) = clocked();
    let app = init_service(App::new().app_data(Data::new(limiter)).route("/", web::get().to(daily))).await;
    // Midnight in Berlin.
    let (midnight, day) = (1_797_375_600_u64, 86_400);
    for (wall_clock, first, wait, reset) in [
        (midnight - 600, 200, "600", midnight),
        (midnight + 600, 200, "85800", midnight + day),
        (midnight + 2 * day + 43_200, 200, "43200", midnight + 3 * day),
        // Back on the first day, whose count holds.
        (midnight - 1_200, 429, "1200", midnight),
    ] {
        clock.set_wall_clock(Timestamp::from_micros(wall_clock * 1_000_000));
        let answers = [send(&app, get("/")).await, send(&app, get("/")).await];
        assert_eq!(answers.each_ref().map(|answer| answer.status), [first, 429], "{wall_clock}");
        let [admitted, denied] = answers.each_ref().map(|answer| answer.quota().unwrap());
        assert_eq!((admitted, denied), ((1, 0, reset), (1, 0, reset)));
        assert_eq!(answers[1].header("retry-after"), Some(wait));
    }
}

/// A wait is one of its own limit: the instants of two clocks have no difference.
#[actix_web::test]
async fn limiters_with_other_clocks_do_not_change_each_others_waits() {
    #[rate_limit(max = 1, window = "20s", algorithm = "fixed_window")]
    async fn limited() -> &'static str {
        "ok"
    }

    // Two requests: the first is the last that the handler admits, the second that of the middleware.
    for (outer_window, wait, limit) in [(10, "20", 1), (60, "60", 2)] {
        for ahead in [0, 3_600, -3_600] {
            let (outside, clock) = clocked();
            clock.set(Timestamp::from_micros(START.saturating_add_signed(ahead) * 1_000_000));
            let outer = Policy::builder("outer").max(2).window(Duration::from_secs(outer_window));
            let outer = outer.algorithm(Algorithm::FixedWindow).build();
            let scope = web::scope("").app_data(Data::new(clocked().0)).route("/", web::get().to(limited));
            let app = App::new().app_data(Data::new(outside)).wrap(RateLimitMiddleware::new(outer));
            let app = init_service(app.service(scope)).await;
            assert_eq!(send(&app, get("/")).await.status, 200);
            let denied = send(&app, get("/")).await;
            let case = format!("{outer_window} s outside, {ahead} s ahead");
            assert_eq!((denied.status, denied.header("retry-after")), (429, Some(wait)), "{case}");
            assert_eq!(denied.header("x-ratelimit-limit"), Some(limit.to_string().as_str()), "{case}");
        }
    }
}
