//! What applies to a request.

use super::*;
use crate::overrides::{LimitOverride, Origin};
use crate::policy::{Field, Mode, OnError, Settings};

const FILE: &str = "
[limit.shop]
max = 20
on_error = 'deny'
[limit.shop.plans]
pro = { max = 1000, block = '2m' }
[limit.shop.callers]
\"partition acct-42\" = { max = 500 }
\"partition acct-43\" = { mode = 'off' }
";

#[test]
fn the_row_of_the_caller_beats_that_of_the_plan() {
    let limiter = limiter(FILE).unwrap();
    let found = |plan: Option<&str>, caller: &str| {
        let found = limiter.in_force_for(&SHOP, plan, caller);
        (found.policy().max(), found.policy().block().is_some(), found.origin())
    };
    assert_eq!(found(None, "acct-1"), (20, false, Origin::Limit));
    assert_eq!(found(Some("pro"), "acct-1"), (1000, true, Origin::Plan));
    assert_eq!(found(Some("free"), "acct-1"), (20, false, Origin::Limit));
    assert_eq!(found(None, "acct-42"), (500, false, Origin::Caller));
    assert_eq!(found(Some("pro"), "acct-42"), (500, false, Origin::Caller), "nothing of the plan");
    assert!(limiter.in_force_for(&SHOP, None, "acct-43").is_off());
    assert_eq!(limiter.in_force(&LOGIN).origin(), Origin::Program);
}

#[test]
fn every_number_tells_where_it_comes_from() {
    let limiter = limiter(FILE).unwrap();
    let found = limiter.in_force_for(&SHOP, Some("pro"), "acct-1");
    for &field in Field::ALL.iter().filter(|field| field.is_overridable()) {
        let origin = match field {
            Field::Max | Field::Block => Origin::Plan,
            Field::OnError => Origin::Limit,
            _ => Origin::Program,
        };
        assert_eq!(found.origin_of(field), origin, "{}", field.as_str());
    }
    assert_eq!(found.policy().on_error(), OnError::Deny);
    let in_force = limiter.in_force(&SHOP);
    let names: Vec<_> = in_force.rows().map(|(name, _)| name).collect();
    assert_eq!(names, ["pro", "partition acct-42", "partition acct-43"]);
    assert_eq!(limiter.in_force(&LOGIN).rows().count(), 0);
}

#[test]
fn each_number_of_a_row_beats_that_of_the_limit() {
    let fields = |max: u64, minutes: u64, mode: &str, on_error: &str| {
        format!(
            "max = {max}\nwindow = '{minutes}m'\nburst = {}\nblock = '{}m'\nmode = '{mode}'\non_error = '{on_error}'\n",
            max + 1,
            9 * minutes
        )
    };
    let (of_limit, of_row) = (fields(20, 2, "enforce", "allow"), fields(30, 3, "shadow", "deny"));
    for row in ["plans.pro", "callers.'partition a'"] {
        let limiter = limiter(&format!("[limit.bucket]\n{of_limit}[limit.bucket.{row}]\n{of_row}")).unwrap();
        let found = limiter.in_force_for(&BUCKET, Some("pro"), "a");
        let policy = found.policy();
        assert_eq!((policy.max(), policy.capacity(), policy.window()), (30, 31, Duration::from_secs(180)));
        assert_eq!(policy.block(), Some(Duration::from_secs(27 * 60)));
        assert_eq!((policy.mode(), policy.on_error()), (Mode::Shadow, OnError::Deny));
        let none = limiter.in_force_for(&BUCKET, None, "b").policy().clone();
        assert_eq!((none.max(), none.mode(), none.on_error()), (20, Mode::Enforce, OnError::Allow));
    }
}

#[test]
fn rows_with_equal_numbers_share_their_policy() {
    let text = "[limit.shop.callers]\n'partition a' = { max = 5 }\n'partition b' = { max = 6 }\n'partition c' = { max = 5 }";
    let in_force = limiter(text).unwrap().in_force(&SHOP);
    let of = |caller: &str| in_force.of_request(None, caller.as_bytes()).shared_policy();
    assert!(Arc::ptr_eq(&of("a"), &of("c")) && !Arc::ptr_eq(&of("a"), &of("b")));
}

#[test]
fn what_is_not_overridden_stays_that_of_the_program() {
    static FULL: Policy = Policy::builder("full")
        .name("shown")
        .max(10)
        .sub_windows(6)
        .on_error(OnError::Allow)
        .mode(Mode::Shadow)
        .block(Duration::from_secs(3600))
        .lease(Duration::from_millis(100))
        .build();
    assert_eq!(FULL.with_settings(Settings::new()).unwrap(), FULL);
    assert_eq!(FULL.with_settings(Settings::new().max(11)).unwrap().state_id(), FULL.state_id());
    let longer = FULL.with_settings(Settings::new().window(Duration::from_secs(120))).unwrap();
    assert_eq!((longer.key(), longer.name(), longer.sub_windows()), ("full", "shown", 6));
    assert_ne!(longer.state_id(), FULL.state_id());
    let off = Settings::new().off();
    assert_eq!(FULL.with_settings(off).unwrap(), FULL, "its counts are found where they were");
    let enforced = FULL.with_settings(Settings::new().mode(Mode::Enforce)).unwrap();
    assert_ne!(enforced.state_id(), FULL.state_id(), "a shadow limit has a count of its own");
    let none = FULL.with_settings(Settings::new().without_block()).unwrap();
    assert_eq!((none.block(), none.lease()), (None, FULL.lease()));
    let unleased = Policy::builder("k").build();
    assert_eq!(unleased.with_settings(Settings::new()).unwrap(), unleased);
}

#[test]
fn a_burst_that_equals_max_follows_it() {
    let larger = Settings::new().max(20);
    assert_eq!(BUCKET.with_settings(larger).unwrap().capacity(), 20);
    assert_eq!(BUCKET.with_settings(larger.burst(5)).unwrap().capacity(), 5);
    let own = Policy::builder("own").max(10).burst(50).algorithm(Algorithm::TokenBucket).build();
    assert_eq!(own.with_settings(larger).unwrap().capacity(), 50);
}

#[test]
fn a_policy_that_was_made_at_run_time_is_found_by_its_value() {
    let made = Policy::new("k", 10, Duration::from_secs(60)).with_key("jobs").unwrap();
    let builder = RateLimiter::builder(MemoryStore::new()).policies([made.clone()]);
    let limiter = builder.overrides(parsed("[limit.jobs]\nmax = 1")).build();
    assert_eq!(limiter.in_force(&made).policy().max(), 1);
    let other = Policy::new("jobs", 11, Duration::from_secs(60));
    assert_eq!(limiter.in_force(&other).origin(), Origin::Program);
}

#[test]
fn overrides_by_code_are_replaced_as_a_whole() {
    let limiter = limiter(FILE).unwrap();
    let shop = LimitOverride::from(Settings::new().max(7)).plan("pro", Settings::new().mode(Mode::Shadow));
    limiter.replace_overrides(Overrides::new().limit("shop", shop)).unwrap();
    assert_eq!(limiter.in_force_for(&SHOP, None, "acct-42").policy().max(), 7);
    assert_eq!(limiter.in_force_for(&SHOP, Some("pro"), "x").policy().mode(), Mode::Shadow);

    let bad = Overrides::new().limit("shop", Settings::new().max(0));
    let error = limiter.replace_overrides(bad).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the overrides cannot be used: limit `shop`: max must be from 1 to 1000000000000"
    );
    assert_eq!(limiter.in_force(&SHOP).policy().max(), 7, "those before stay");

    for never in [
        Settings::new().algorithm(Algorithm::FixedWindow),
        Settings::new().max(1).lease(Duration::from_millis(100)),
    ] {
        let shop = LimitOverride::new().caller("partition a", never);
        let error = limiter.replace_overrides(Overrides::new().limit("shop", shop)).unwrap_err().to_string();
        assert!(error.contains("a caller of limit `shop`: overrides can replace max, the length"), "{error}");
    }

    limiter.replace_overrides(Overrides::new()).unwrap();
    assert_eq!(limiter.in_force(&SHOP).origin(), Origin::Program);
    assert!(limiter.overrides_guard().limit(&SHOP).is_none());
}

#[test]
fn what_a_group_has_looked_up_stays_as_it_was() {
    let limiter = limiter(FILE).unwrap();
    let (in_force, overrides) = (limiter.in_force(&SHOP).into_owned(), limiter.overrides_guard());
    limiter.replace_overrides(parsed("[limit.shop]\nmax = 3")).unwrap();
    assert_eq!(in_force.policy().max(), 20);
    assert_eq!(overrides.limit(&SHOP).unwrap().policy().max(), 20);
    assert_eq!(limiter.in_force(&SHOP).policy().max(), 3);
}

#[cfg(feature = "calendar")]
#[test]
fn a_calendar_window_keeps_its_calendar_and_its_counts() {
    use crate::policy::Calendar;

    let calendar = Calendar::month(15).in_zone("Europe/Berlin");
    let budget = Policy::builder("budget").max(100).calendar(calendar).build();
    let built = |text: &str| {
        let builder = RateLimiter::builder(MemoryStore::new()).policies([&budget]);
        builder.overrides(text.parse()?).try_build()
    };
    let raised = built("[limit.budget]\nmax = 500").unwrap();
    let in_force = raised.in_force(&budget).policy().clone();
    assert_eq!((in_force.max(), in_force.calendar()), (500, Some(&calendar)));
    assert_eq!(in_force.state_id(), budget.state_id());
    for (row, expected) in [
        ("[limit.budget]\nwindow = '1h'", "limit `budget`: window cannot replace a calendar window"),
        ("[limit.budget]\nblock = '90d'", "limit `budget`: block is not for a calendar window"),
        (
            "[limit.budget.plans]\npro = { block = '90d' }",
            "line 2: plan `pro` of limit `budget`: block is not for a calendar window",
        ),
    ] {
        let error = built(row).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(built("[limit.budget]\nblock = 'off'").is_ok());
}

#[test]
fn a_concurrency_limit_may_have_another_maximum_and_no_window() {
    static STREAMS: Policy = Policy::concurrency("streams", 3);
    let limiter = |text: &str| {
        let builder = RateLimiter::builder(MemoryStore::new()).policies([&STREAMS]);
        builder.overrides(text.parse()?).try_build()
    };
    let raised = limiter("[limit.streams]\nmax = 5\non_error = 'deny'").unwrap();
    let found = raised.in_force(&STREAMS);
    assert!(found.policy().is_concurrency());
    assert_eq!((found.policy().max(), found.policy().on_error()), (5, OnError::Deny));
    for field in ["window = '1m'", "block = '1m'"] {
        let error = limiter(&format!("[limit.streams]\n{field}")).unwrap_err().to_string();
        assert!(
            error.contains("limit `streams`: window, block and lease are not for a concurrency limit"),
            "{error}"
        );
    }
}

#[test]
fn what_is_in_force_shows_no_caller_when_it_is_debugged() {
    let limiter = limiter(FILE).unwrap();
    let in_force = limiter.in_force_for(&SHOP, None, "acct-42");
    for text in [format!("{in_force:?}"), format!("{:?}", in_force.clone().into_owned())] {
        assert!(!text.contains("acct") && text.contains("rows: 4"), "{text}");
    }
}
