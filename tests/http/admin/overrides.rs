//! Overrides in the operator's scope: the numbers in force, the rows they come from, and the counts of a
//! caller under them.

use std::fmt::Write;

use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::policy::Calendar;
use ratelimit_actix::{Overrides, RateLimiterBuilder, declared_limits};
use tests::redis;
use tests::store::watched_builder;

use super::*;

#[rate_limit(max = 2, window = "1m", key = "!over-plans", by = header("x-account"), plan = plan)]
#[get("/plans")]
async fn plans() -> &'static str {
    "plans"
}

fn plan(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-plan")?.to_str().ok()
}

#[rate_limit(max = |_: &HttpRequest| 3, window = "1m", key = "!over-chosen", block = "10m")]
#[get("/chosen")]
async fn chosen() -> &'static str {
    "chosen"
}

#[rate_limit(max = |_: &HttpRequest| 3, window = "1m", key = "!over-bucket", algorithm = "token_bucket")]
#[get("/bucket")]
async fn bucket() -> &'static str {
    "bucket"
}

#[rate_limit(max = 2, window = "month", anchor = |req: &HttpRequest| day(req), key = "!over-billed")]
#[get("/billed")]
async fn billed() -> &'static str {
    "billed"
}

fn day(req: &HttpRequest) -> u8 {
    req.headers().get("x-day").unwrap().to_str().unwrap().parse().unwrap()
}

static BUILT_WITH: Policy = Policy::builder("!over-built-with").max(9).build();

fn builder() -> RateLimiterBuilder {
    RateLimiter::builder(MemoryStore::new().with_clock(clock_at_start())).policies([&BUILT_WITH])
}

fn overridden(text: &str) -> RateLimiter {
    builder().overrides(text.parse().unwrap()).build()
}

macro_rules! app {
    ($limiter:expr, $show_callers:expr) => {
        actix_web::test::init_service(
            App::new()
                .app_data(web::Data::new($limiter.clone()))
                .service((plans, chosen, bucket, billed, orders))
                .service(
                    web::scope("/_limits")
                        .service(admin($limiter.clone(), is_operator).show_callers($show_callers)),
                ),
        )
        .await
    };
}

async fn looked<S, B>(app: &S, limit: &str, caller: &str) -> Vec<Value>
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: actix_web::body::MessageBody,
{
    let answer = post(app, "/_limits/look.json", &[("limit", limit), ("caller", caller)]).await;
    let mut look: Value = serde_json::from_str(&answer.body).unwrap();
    look["counts"].as_array_mut().unwrap().drain(..).collect()
}

#[actix_web::test]
async fn the_numbers_in_force_show_where_they_come_from() {
    let limiter = overridden(
        "[limit.'!over-plans']\nmax = 20\n[limit.'!over-plans'.plans]\npro = { max = 1000 }\n\
         [limit.'!over-plans'.callers]\n'text acct-77' = { max = 500, mode = 'shadow' }\n\
         [limit.'!over-built-with']\nmode = 'off'\n[limit.'!over-chosen']\nmax = 7",
    );
    for show_callers in [false, true] {
        let app = app!(limiter, show_callers);
        let limits = get_json(&app, "/_limits/limits.json").await;
        let numbers = &of(&limits, "!over-plans")["numbers"][0];
        assert_eq!((&numbers["max"], &numbers["program"]["max"]), (&20.into(), &2.into()), "{numbers}");
        assert_eq!(numbers["overridden"], serde_json::json!({ "max": "limit" }));
        assert_eq!((&numbers["plan_rows"], &numbers["caller_rows"]), (&1.into(), &1.into()));
        let rows: Vec<_> = numbers["rows"].as_array().unwrap().iter().collect();
        assert_eq!(rows.len(), if show_callers { 2 } else { 1 });
        assert_eq!((&rows[0]["name"], &rows[0]["max"]), (&Value::from("pro"), &Value::from(1000)));
        assert_eq!(rows[0]["overridden"], serde_json::json!({ "max": "plan" }));
        assert_eq!(
            of(&limits, "!over-chosen")["numbers"][0]["max"],
            7,
            "a `max` of overrides beats a computed one"
        );
        let built_with = &of(&limits, "!over-built-with")["numbers"][0];
        assert_eq!(
            (&built_with["mode"], &built_with["source"]),
            (&Value::from("off"), &Value::from("policy"))
        );
        assert_eq!(
            (&built_with["overridden"]["mode"], &built_with["program"]["max"]),
            (&"limit".into(), &9.into())
        );
        assert_eq!(limits.to_string().contains("acct-77"), show_callers);
        let whole = get_json(&app, "/_limits/overrides.json").await;
        assert_eq!((&whole["rows"], &whole["limits"]), (&5.into(), &3.into()));
        assert_eq!(whole["source"], "the overrides");
    }
    limiter.replace_overrides(Overrides::new()).unwrap();
    let app = app!(limiter, true);
    let limits = get_json(&app, "/_limits/limits.json").await;
    let numbers = &of(&limits, "!over-plans")["numbers"][0];
    assert_eq!((&numbers["max"], &numbers["program"]), (&2.into(), &Value::Null));
}

#[actix_web::test]
async fn a_caller_is_looked_at_under_its_own_row_or_under_every_plan() {
    let limiter = overridden(
        "[limit.'!over-plans']\nmax = 20\n[limit.'!over-plans'.plans]\npro = { max = 1000 }\n\
         [limit.'!over-plans'.callers]\n'text acct-77' = { max = 500, window = '2m' }",
    );
    let app = app!(limiter, false);
    for (account, requests) in [("acct-77", 3), ("acct-43", 2)] {
        for _ in 0..requests {
            let request = answer::get("/plans").insert_header(("x-account", account));
            assert_eq!(send(&app, request).await.status, 200);
        }
    }
    let own = looked(&app, "!over-plans", "acct-77").await;
    assert!(own.iter().all(|count| count["plan"].is_null()), "{own:?}");
    let facts = |count: &Value| {
        (
            count["origin"].clone(),
            count["plan"].clone(),
            count["max"].clone(),
            count["counted"]["units"].clone(),
        )
    };
    assert_eq!(facts(&own[0]), ("caller".into(), Value::Null, 500.into(), 3.into()));
    let other = looked(&app, "!over-plans", "acct-43").await;
    let other: Vec<_> = other.iter().map(facts).collect();
    assert_eq!(other[0], ("limit".into(), Value::Null, 20.into(), 2.into()));
    assert_eq!(other[1], ("plan".into(), "pro".into(), 1000.into(), 2.into()));
}

#[actix_web::test]
async fn a_reset_reaches_the_counts_from_before_a_caller_had_its_row() {
    let Some(server) = redis::server() else { return };
    let clock = clock_at_start();
    let by_row = |row: &str| {
        let text = format!("[limit.'!over-plans'.callers]\n'text a' = {{ {row} }}");
        RateLimiter::builder(server.store_at(&clock)).overrides(text.parse().unwrap()).build()
    };
    for (before, row) in [
        (server.limiter_at(&clock), "window = '2m'"),
        (by_row("window = '3m'"), "window = '3m', mode = 'shadow'"),
    ] {
        // This process has decided nothing, so only the program and the overrides say by what the caller
        // was counted.
        let (other, app) = (app!(before, false), app!(by_row(row), false));
        let request = || answer::get("/plans").insert_header(("x-account", "a"));
        assert_eq!(send(&other, request()).await.status, 200);
        let answer = post(&app, "/_limits/reset.json", &[("limit", "!over-plans"), ("caller", "a")]).await;
        let view: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, &view["was_counted"]), (200, &true.into()), "{row}: {view}");
        for status in [200, 200, 429] {
            assert_eq!(send(&other, request()).await.status, status, "{row}");
        }
    }
}

#[actix_web::test]
async fn a_look_calls_the_store_once() {
    let (builder, watch) = watched_builder();
    let text =
        "[limit.'!over-plans'.plans]\npro = { max = 1000 }\nday = { window = '1d' }\nnone = { mode = 'off' }";
    let limiter = builder.overrides(text.parse().unwrap()).build();
    let app = app!(limiter, false);
    let day = || answer::get("/plans").insert_header(("x-account", "a")).insert_header(("x-plan", "day"));
    for status in [200, 200, 429] {
        assert_eq!(send(&app, day()).await.status, status);
    }
    let plain = answer::get("/plans").insert_header(("x-account", "a"));
    assert_eq!(send(&app, plain).await.status, 200);
    let looked = looked(&app, "!over-plans", "a").await;
    let units = |plan: Value| {
        let count = looked.iter().find(|count| count["plan"] == plan).unwrap();
        (count["counted"]["units"].clone(), count["counted"]["passes"].clone())
    };
    assert_eq!(units("day".into()), (2.into(), false.into()), "{looked:?}");
    // These share a count, and are not judged by the sum of their units.
    for plan in [Value::Null, "pro".into()] {
        assert_eq!(units(plan), (1.into(), true.into()), "{looked:?}");
    }
    assert_eq!(units("none".into()), (Value::Null, Value::Null), "{looked:?}");
    assert_eq!((looked.len(), watch.peeks()), (4, 1));
}

#[actix_web::test]
async fn a_corrupt_count_leaves_the_others_of_a_look_to_the_store() {
    let Some(server) = redis::server() else { return };
    let text = "[limit.'!over-plans'.plans]\nday = { window = '1d' }";
    let limiter = RateLimiter::builder(server.store_at(&clock_at_start()));
    let limiter = limiter.overrides(text.parse().unwrap()).build();
    let app = app!(limiter, false);
    let plain = || answer::get("/plans").insert_header(("x-account", "a"));
    assert_eq!(send(&app, plain()).await.status, 200);
    let mut raw = server.raw().await;
    let keys: Vec<String> = raw.keys("*").await.unwrap();
    let _: () = raw.set(&keys[0], "not ours").await.unwrap();
    assert_eq!(send(&app, plain().insert_header(("x-plan", "day"))).await.status, 200);
    let looked = looked(&app, "!over-plans", "a").await;
    let is_degraded = |plan: Value| {
        let count = looked.iter().find(|count| count["plan"] == plan).unwrap();
        count["counted"]["is_degraded"].clone()
    };
    assert_eq!(
        (is_degraded(Value::Null), is_degraded("day".into())),
        (true.into(), false.into()),
        "{looked:?}"
    );
}

#[actix_web::test]
async fn a_reset_with_many_plans_takes_groups() {
    let mut text = String::from("[limit.'!over-plans'.plans]\n");
    for window in 1..=900 {
        writeln!(text, "plan{window} = {{ window = '{window}s' }}").unwrap();
    }
    let (builder, watch) = watched_builder();
    let limiter = builder.overrides(text.parse().unwrap()).build();
    let app = app!(limiter, false);
    let request =
        || answer::get("/plans").insert_header(("x-account", "a")).insert_header(("x-plan", "plan899"));
    for status in [200, 200, 429] {
        assert_eq!(send(&app, request()).await.status, status);
    }
    let answer = post(&app, "/_limits/reset.json", &[("limit", "!over-plans"), ("caller", "a")]).await;
    // 900 windows, one of which is that of the program, in two modes. At most 64 limits in a group.
    assert_eq!((answer.status, watch.resets()), (200, 29), "{}", answer.body);
    assert_eq!(send(&app, request()).await.status, 200);
    for limit in declared_limits().iter().filter(|limit| limit.policy().name() == "!over-plans") {
        limit.reset_caller(&limiter, "a").await.unwrap();
    }
    assert_eq!(watch.resets(), 29 + 29);
    for status in [200, 200, 429] {
        assert_eq!(send(&app, request()).await.status, status);
    }
}

#[actix_web::test]
async fn a_limit_whose_max_is_computed_is_counted_without_it() {
    let limiter = builder().build();
    let app = app!(limiter, false);
    assert!(
        looked(&app, "!over-bucket", "192.0.2.1").await.is_empty(),
        "no state is known before a decision"
    );
    assert_eq!(statuses(&app, "/chosen", 3).await, [200; 3]);
    let count = &looked(&app, "!over-chosen", "192.0.2.1").await[0];
    assert_eq!((&count["max"], &count["counted"]["units"]), (&Value::Null, &Value::from(3)), "{count}");
    assert_eq!((&count["counted"]["passes"], &count["counted"]["remaining"]), (&Value::Null, &Value::Null));
    assert_eq!(statuses(&app, "/chosen", 1).await, [429]);
    let count = &looked(&app, "!over-chosen", "192.0.2.1").await[0];
    assert_eq!(
        (&count["counted"]["passes"], &count["counted"]["units"]),
        (&false.into(), &Value::Null),
        "blocked"
    );
    assert_eq!(statuses(&app, "/bucket", 2).await, [200; 2]);
    let count = &looked(&app, "!over-bucket", "192.0.2.1").await[0];
    assert_eq!((&count["origin"], &count["counted"]["units"]), (&Value::from("decision"), &Value::from(2)));
    for path in ["!over-chosen", "!over-bucket"] {
        assert_eq!(
            post(&app, "/_limits/reset.json", &[("limit", path), ("caller", "192.0.2.1")]).await.status,
            200
        );
    }
    assert_eq!(statuses(&app, "/chosen", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&app, "/bucket", 4).await, [200, 200, 200, 429]);
}

#[actix_web::test]
async fn a_limit_whose_anchor_is_computed_is_counted_from_any_day() {
    let clock = clock_at_start();
    clock.set(Timestamp::from_micros(1_699_963_200_000_000)); // 2023-11-14T12:00:00Z
    let limiter = RateLimiter::new(MemoryStore::new().with_clock(clock));
    let app = app!(limiter, false);
    let request = || answer::get("/billed").insert_header(("x-day", "15"));
    for status in [200, 200] {
        assert_eq!(send(&app, request()).await.status, status);
    }
    // The 14th of a month: from the first day nothing would be counted.
    let looked = async || looked(&app, "!over-billed", "192.0.2.1").await.remove(0);
    let count = looked().await;
    assert_eq!(
        (&count["counted"]["units"], &count["counted"]["remaining"]),
        (&2.into(), &0.into()),
        "{count}"
    );
    assert_eq!(
        (&count["counted"]["passes"], &count["counted"]["retry_after_us"]),
        (&false.into(), &Value::Null)
    );
    assert_eq!(count["counted"]["reset_after_us"], Value::Null);
    assert_eq!(count["calendar"], "calendar month in UTC from a day chosen for each request");
    let form = [("limit", "!over-billed"), ("caller", "192.0.2.1")];
    assert_eq!(send(&app, request()).await.status, 429);
    let reset = async || -> (u16, Value) {
        let answer = post(&app, "/_limits/reset.json", &form).await;
        let view: Value = serde_json::from_str(&answer.body).unwrap();
        (answer.status, view["was_counted"].clone())
    };
    assert_eq!(reset().await, (200, true.into()));
    assert_eq!(reset().await, (200, false.into()), "nothing is left");
    assert_eq!(send(&app, request()).await.status, 200);
}

#[actix_web::test]
async fn a_window_that_cannot_be_present_is_not_shown() {
    let clock = clock_at_start();
    clock.set(Timestamp::from_micros(1_700_481_600_000_000)); // 2023-11-20T12:00:00Z
    let limiter = RateLimiter::new(MemoryStore::new().with_clock(clock.clone()));
    let app = app!(limiter, false);
    let request = || answer::get("/billed").insert_header(("x-day", "20"));
    assert_eq!(send(&app, request()).await.status, 200);
    let units =
        async || looked(&app, "!over-billed", "192.0.2.1").await.remove(0)["counted"]["units"].clone();
    clock.advance(Duration::from_secs(29 * 86_400));
    assert_eq!(units().await, 1, "19 December");
    clock.advance(Duration::from_secs(86_400));
    assert_eq!(units().await, 1, "20 December: by the 21st the window is present");
    clock.advance(Duration::from_secs(12 * 86_400));
    assert_eq!(units().await, 0, "1 January");
    let form = [("limit", "!over-billed"), ("caller", "192.0.2.1")];
    let reset: Value = serde_json::from_str(&post(&app, "/_limits/reset.json", &form).await.body).unwrap();
    assert_eq!(reset["was_counted"], false, "nothing was left");
}

#[actix_web::test]
async fn policies_with_one_count_and_two_calendars_are_each_shown_by_their_own() {
    let policies =
        [1, 15].map(|day| Policy::builder("!over-months").calendar(Calendar::month(day)).max(9).build());
    // 14 and 20 November: the windows have different labels, and the same.
    for (now, units) in [(1_699_963_200_000_000, 1), (1_700_481_600_000_000, 2)] {
        let clock = clock_at_start();
        clock.set(Timestamp::from_micros(now));
        let store = MemoryStore::new().with_clock(clock);
        let limiter = RateLimiter::builder(store).policies(&policies).build();
        for policy in &policies {
            assert!(limiter.check(policy, "a").await.unwrap().is_allowed());
        }
        let app = app!(limiter, false);
        let looked = looked(&app, "!over-months", "partition a").await;
        let counted: Vec<_> = looked.iter().map(|count| &count["counted"]).collect();
        let shown: Vec<_> =
            counted.iter().map(|counted| counted["reset_after_us"].as_u64().unwrap()).collect();
        let mut resets = Vec::new();
        for policy in &policies {
            let reset_after = limiter.peek(policy, "a").await.unwrap().reset_after();
            resets.push(u64::try_from(reset_after.as_micros()).unwrap());
        }
        assert_eq!(shown, resets);
        assert_ne!(shown[0], shown[1]);
        assert!(counted.iter().all(|counted| counted["units"] == units));
        let form = [("limit", "!over-months"), ("caller", "partition a")];
        assert_eq!(post(&app, "/_limits/reset.json", &form).await.status, 200);
        for policy in &policies {
            assert_eq!(limiter.peek(policy, "a").await.unwrap().remaining(), 9, "each is reset");
        }
    }
}

#[actix_web::test]
async fn a_reset_by_code_reaches_a_bucket_whose_max_is_computed() {
    let limiter = builder().build();
    let app = app!(limiter, false);
    assert_eq!(statuses(&app, "/bucket", 4).await, [200, 200, 200, 429]);
    let limit = declared_limits().into_iter().find(|limit| limit.policy().name() == "!over-bucket").unwrap();
    limit.reset_caller(&limiter, IpAddr::from([192, 0, 2, 1])).await.unwrap();
    assert_eq!(statuses(&app, "/bucket", 4).await, [200, 200, 200, 429]);
}

#[actix_web::test]
async fn a_limit_that_is_off_is_looked_at_and_reset() {
    let limiter = overridden("[limit.'!over-plans']\nmode = 'off'");
    let app = app!(limiter, false);
    let fields = [("limit", "!over-plans"), ("caller", "a")];
    let count = &looked(&app, "!over-plans", "a").await[0];
    assert_eq!((&count["mode"], &count["counted"]), (&Value::from("off"), &Value::Null), "{count}");
    assert_eq!(post(&app, "/_limits/reset.json", &fields).await.status, 200);
}

#[actix_web::test]
async fn newer_contents_that_are_not_in_force_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("<b>limits.toml");
    std::fs::write(&path, "[limit.'!over-plans']\nmax = 4\n").unwrap();
    let overrides = Overrides::from_file(&path).unwrap().watch(true);
    let limiter = builder().overrides(overrides).build();
    let app = app!(limiter, false);
    let before = get_json(&app, "/_limits/overrides.json").await;
    assert_eq!((&before["rejected"], &before["limits"]), (&Value::Null, &Value::from(1)));
    let mistakes = format!("[limit.'<i>']\nmax = 4\n[limit.'{}']\nmax = 4\n", "x".repeat(100_000));
    std::fs::write(&path, mistakes).unwrap();
    assert!(tests::within(Duration::from_secs(20), || limiter.rejected_overrides().is_some()));
    let after = get_json(&app, "/_limits/overrides.json").await;
    assert!(after["rejected"].as_str().unwrap().contains("unknown limit `<i>`"), "{after}");
    assert_eq!(after["limits"], 1, "those before stay in force");
}

#[actix_web::test]
async fn without_overrides_there_is_null() {
    let app = app!(builder().build(), false);
    assert_eq!(get_json(&app, "/_limits/overrides.json").await, Value::Null);
}

#[actix_web::test]
async fn a_reset_reaches_every_count_that_a_caller_may_have_and_says_if_there_is_none() {
    let limiter = overridden("[limit.'!over-plans'.callers]\n'text acme' = { window = '2m' }");
    let app = app!(limiter, false);
    let status = async || send(&app, answer::get("/plans").insert_header(("x-account", "acme"))).await.status;
    // Counted by the row of the caller, and by the program after the row is gone.
    assert_eq!([status().await, status().await, status().await], [200, 200, 429]);
    limiter.replace_overrides(Overrides::new()).unwrap();
    assert_eq!([status().await, status().await, status().await], [200, 200, 429]);
    limiter
        .replace_overrides("[limit.'!over-plans'.callers]\n'text acme' = { window = '2m' }".parse().unwrap())
        .unwrap();
    let fields = [("limit", "!over-plans"), ("caller", "acme")];
    assert_eq!(post(&app, "/_limits/reset.json", &fields).await.status, 200);
    assert_eq!(status().await, 200);
    limiter.replace_overrides(Overrides::new()).unwrap();
    assert_eq!(status().await, 200, "the count of before was reset as well");
    // Of a bucket whose `max` is computed the states are known from decisions of this process only.
    let fields = [("limit", "!over-bucket"), ("caller", "192.0.2.1")];
    let unknown = post(&app, "/_limits/reset.json", &fields).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("knows no count of this caller"), "{}", unknown.body);
    assert_eq!(statuses(&app, "/bucket", 4).await, [200, 200, 200, 429]);
    assert_eq!(post(&app, "/_limits/reset.json", &fields).await.status, 200);
    assert_eq!(statuses(&app, "/bucket", 1).await, [200]);
}
