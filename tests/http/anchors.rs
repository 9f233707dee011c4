//! `anchor` per request: each account has a billing month of its own, and one whose day changes gains nothing
//! by that.

use actix_http::Request;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::test::init_service;
use actix_web::web::{self, Data, ReqData};
use actix_web::{App, Error, HttpMessage, HttpRequest, get};
use jiff::Timestamp as Instant;
use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use ratelimit_actix::ratelimit_core::policy::{Calendar, Weekday};
use ratelimit_actix::{
    Limit, Policy, RateLimitMiddleware, RateLimiter, declared_limits, rate_limit, reset_caller,
};
use tests::answer::{Answer, get, send, send_raw};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::store::{START, clocked};
use tests::{redis, service};
use tracing::Level;

/// What the authentication knows of an account.
#[derive(Clone, Copy)]
struct Account {
    id: u64,
    billing_day: u8,
}

#[rate_limit(
    max = 3,
    window = "month",
    zone = "Europe/Berlin",
    anchor = |of: ReqData<Account>| of.billing_day,
    name = "!billed",
    by = |of: ReqData<Account>| of.id
)]
#[get("/billed")]
async fn billed() -> &'static str {
    "ok"
}

fn weekday(first: web::Path<String>) -> Weekday {
    first.into_inner().parse().unwrap_or_default()
}

#[rate_limit(max = 3, window = "week", anchor = with(weekday), key = "!weekly")]
#[get("/weekly/{first}")]
async fn weekly() -> &'static str {
    "ok"
}

#[rate_limit(
    max = |_: &HttpRequest| 3,
    window = "year",
    anchor = async |date: web::Path<(u8, u8)>| *date,
    mode = "shadow",
    key = "!yearly"
)]
#[get("/yearly/{month}/{day}")]
async fn yearly() -> &'static str {
    "ok"
}

fn micros(text: &str) -> u64 {
    u64::try_from(text.parse::<Instant>().unwrap().as_microsecond()).unwrap()
}

fn set(clock: &FakeClock, text: &str) {
    clock.set(Timestamp::from_micros(micros(text)));
}

async fn request_of<S, B>(app: &S, id: u64, billing_day: u8) -> Answer
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: actix_web::body::MessageBody,
{
    let request = get("/billed").to_request();
    request.extensions_mut().insert(Account { id, billing_day });
    send_raw(app, request).await
}

/// The status, what is left, and the instant at which the full quota is back.
fn shown(answer: &Answer) -> (u16, u64, String) {
    let (_, left, reset) = answer.quota().unwrap();
    (answer.status, left, Instant::from_second(i64::try_from(reset).unwrap()).unwrap().to_string())
}

async fn story(limiter: &RateLimiter, clock: &FakeClock) {
    let app = service!(limiter, billed);
    let expect = |status, left, reset: &str| (status, left, reset.to_owned());

    // Two accounts, each from its own day.
    set(clock, "2026-01-20T11:00:00Z");
    for (id, day, reset) in [(1, 15, "2026-02-14T23:00:00Z"), (2, 25, "2026-01-24T23:00:00Z")] {
        for left in [2, 1, 0] {
            assert_eq!(shown(&request_of(&app, id, day).await), expect(200, left, reset));
        }
        let denied = request_of(&app, id, day).await;
        assert_eq!(shown(&denied), expect(429, 0, reset));
        let wait = (micros(reset) - micros("2026-01-20T11:00:00Z")) / 1_000_000;
        // The first is longer than timers are.
        assert_eq!(denied.header("retry-after"), Some(&*wait.min(2_147_483).to_string()));
    }
    set(clock, "2026-01-24T22:59:59Z");
    assert_eq!(request_of(&app, 2, 25).await.status, 429);
    set(clock, "2026-01-24T23:00:00Z");
    assert_eq!(shown(&request_of(&app, 2, 25).await), expect(200, 2, "2026-02-24T23:00:00Z"));
    assert_eq!(request_of(&app, 1, 15).await.status, 429);

    // The 31st, and the last day of a month without it, in summer time from 29 March on.
    set(clock, "2026-02-15T11:00:00Z");
    assert_eq!(shown(&request_of(&app, 3, 31).await), expect(200, 2, "2026-02-27T23:00:00Z"));
    set(clock, "2026-02-27T23:00:00Z");
    assert_eq!(shown(&request_of(&app, 3, 31).await), expect(200, 2, "2026-03-30T22:00:00Z"));

    // A new day of the same month: one count, however often the day changes.
    set(clock, "2026-05-05T10:00:00Z");
    assert_eq!(shown(&request_of(&app, 4, 1).await), expect(200, 2, "2026-05-31T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 5, 1).await), expect(200, 2, "2026-05-31T22:00:00Z"));
    set(clock, "2026-05-25T10:00:00Z");
    assert_eq!(shown(&request_of(&app, 4, 1).await), expect(200, 1, "2026-05-31T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 4, 10).await), expect(200, 0, "2026-06-09T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 4, 1).await), expect(429, 0, "2026-05-31T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 5, 20).await), expect(200, 1, "2026-06-19T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 5, 1).await), expect(200, 0, "2026-05-31T22:00:00Z"));
    assert_eq!(request_of(&app, 5, 20).await.status, 429);
    assert_eq!(request_of(&app, 5, 25).await.status, 429);
    // By a day that has not come, the present window is that of April, once.
    for (status, left) in [(200, 2), (200, 1), (200, 0), (429, 0)] {
        assert_eq!(shown(&request_of(&app, 5, 28).await), expect(status, left, "2026-05-27T22:00:00Z"));
    }
    assert_eq!(request_of(&app, 5, 26).await.status, 429);

    // The edge of one day is not that of the other.
    set(clock, "2026-06-09T21:59:59Z");
    assert_eq!(request_of(&app, 4, 10).await.status, 429);
    assert_eq!(shown(&request_of(&app, 4, 15).await), expect(429, 0, "2026-06-14T22:00:00Z"));
    set(clock, "2026-06-09T22:00:00Z");
    assert_eq!(shown(&request_of(&app, 4, 10).await), expect(200, 2, "2026-07-09T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 4, 15).await), expect(429, 0, "2026-06-14T22:00:00Z"));

    // Days that no month has.
    set(clock, "2026-08-15T10:00:00Z");
    assert_eq!(shown(&request_of(&app, 6, 0).await), expect(200, 2, "2026-08-31T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 7, 32).await), expect(200, 2, "2026-08-30T22:00:00Z"));
    assert_eq!(shown(&request_of(&app, 8, 255).await), expect(200, 2, "2026-08-30T22:00:00Z"));

    // The request does not name the account.
    assert_eq!(send(&app, get("/billed")).await.status, 500);
}

#[actix_web::test]
async fn accounts_have_their_own_billing_months_in_memory() {
    let (limiter, clock) = clocked();
    story(&limiter, &clock).await;
}

#[actix_web::test]
async fn accounts_have_their_own_billing_months_in_redis() {
    let Some(server) = redis::server() else { return };
    let clock = FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    story(&server.limiter_at(&clock), &clock).await;
}

#[actix_web::test]
async fn overrides_change_max_and_keep_the_day() {
    let (limiter, clock) = clocked();
    let rows = "[limit.'!billed']\nmax = 1\n[limit.'!yearly']\nmax = 2\nmode = 'enforce'";
    limiter.replace_overrides(rows.parse().unwrap()).unwrap();
    let app = service!(limiter, billed, yearly);
    set(&clock, "2026-01-20T11:00:00Z");
    let reset = "2026-01-24T23:00:00Z".to_owned();
    assert_eq!(shown(&request_of(&app, 2, 25).await), (200, 0, reset.clone()));
    assert_eq!(shown(&request_of(&app, 2, 25).await), (429, 0, reset));
    let reset = "2026-02-28T00:00:00Z".to_owned();
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        assert_eq!(shown(&send(&app, get("/yearly/2/29")).await), (status, left, reset.clone()));
    }
}

#[actix_web::test]
async fn weeks_and_years_begin_on_the_day_of_the_request() {
    let (limiter, clock) = clocked();
    let app = service!(limiter, weekly, yearly);
    // A Wednesday.
    set(&clock, "2026-11-25T12:00:00Z");
    for (path, left, reset) in [
        ("/weekly/sunday", 2, "2026-11-29T00:00:00Z"),
        ("/weekly/thursday", 1, "2026-11-26T00:00:00Z"),
        // Monday: the window that began this week.
        ("/weekly/no-day", 2, "2026-11-30T00:00:00Z"),
        ("/weekly/friday", 0, "2026-11-27T00:00:00Z"),
    ] {
        assert_eq!(shown(&send(&app, get(path)).await), (200, left, reset.to_owned()), "{path}");
    }
    assert_eq!(send(&app, get("/weekly/sunday")).await.status, 429);
    // A shadow limit reports nothing and denies nothing.
    for path in ["/yearly/4/1", "/yearly/2/30", "/yearly/13/0", "/yearly/12/31", "/yearly/4/1"] {
        assert_eq!(send(&app, get(path)).await.status, 200, "{path}");
    }
}

#[test]
fn a_day_on_which_no_month_begins_is_logged_once() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let (limiter, _clock) = clocked();
            let app = service!(limiter, billed);
            for day in [1, 31, 0, 32] {
                assert_eq!(request_of(&app, u64::from(day), day).await.status, 200);
            }
        });
        let errors = log.at(Level::ERROR);
        assert_eq!(errors.len(), 1, "{errors:?}");
        for part in ["!billed", "from the 0th", "from the 1st", "computed-anchor"] {
            assert!(errors[0].contains(part), "{errors:?}");
        }
    });
}

#[actix_web::test]
async fn a_reset_finds_the_window_of_a_day_that_middleware_chose() {
    let (limiter, clock) = clocked();
    set(&clock, "2026-10-03T12:00:00Z");
    let policy = Policy::builder("reset-of-months").max(1).calendar(Calendar::month(1).clamped()).build();
    let limit = Limit::new(&policy).by(|_| "account").anchor(|_| Calendar::month(15));
    let app = App::new().app_data(Data::new(limiter.clone())).wrap(RateLimitMiddleware::new(limit));
    let app = init_service(app.route("/", web::get().to(async || "ok"))).await;
    for status in [200, 429] {
        assert_eq!(send(&app, get("/")).await.status, status);
    }
    reset_caller(&limiter, &policy, "account").await.unwrap();
    assert_eq!(send(&app, get("/")).await.status, 200);
}

#[test]
fn an_anchor_of_another_unit_is_logged_and_the_policy_keeps_its_own() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let (limiter, clock) = clocked();
            set(&clock, "2026-11-25T12:00:00Z");
            let policy = Policy::builder("of-months").max(3).calendar(Calendar::month(20).clamped()).build();
            let limit = Limit::new(policy).anchor(|_| Calendar::year(1, 1));
            let app = App::new().app_data(Data::new(limiter)).wrap(RateLimitMiddleware::new(limit));
            let app = init_service(app.route("/", web::get().to(async || "ok"))).await;
            for left in [2, 1] {
                let expected = (200, left, "2026-12-20T00:00:00Z".to_owned());
                assert_eq!(shown(&send(&app, get("/")).await), expected);
            }
        });
        let errors = log.at(Level::ERROR);
        assert!(errors.len() == 1 && errors[0].contains("calendar month in UTC from the 20th"), "{errors:?}");
    });
}

#[test]
fn a_limit_says_that_each_request_determines_the_day() {
    let limits = declared_limits();
    let limit = |name| limits.iter().find(|limit| limit.policy().name() == name).unwrap();
    let text = limit("!billed").to_string();
    let per = "3 per calendar month in Europe/Berlin from a day chosen for each request by ";
    assert!(text.contains(per), "{text}");
    assert!(limit("!billed").has_computed_anchor() && limit("!billed").max() == Some(3));
    assert!(limit("!yearly").has_computed_anchor() && limit("!yearly").max().is_none());
    assert_eq!(limit("!weekly").policy().calendar().unwrap().zone(), "UTC");
}
