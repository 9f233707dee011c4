//! `declared_limits()`: every limit of the program.

use std::time::Duration;

use actix_web::{App, HttpRequest, get, web};
use ratelimit_actix::{Algorithm, DeclaredLimit, declared_limits, rate_limit};

mod declared {
    use super::*;

    #[rate_limit]
    #[get("/bare")]
    pub(super) async fn bare() -> &'static str {
        "ok"
    }

    #[rate_limit(
        max = 10,
        window = "1h30m",
        key = "user:{id}",
        name = "user",
        algorithm = "fixed_window",
        cost = 2
    )]
    #[rate_limit(
        max = |_req: HttpRequest| 5,
        by = (path("id"), |req: &HttpRequest| req.path().len()),
        cost = with(cost),
        count = "failures",
        skip = |_req: &HttpRequest| false
    )]
    #[get("/{id}")]
    pub(super) async fn several() -> &'static str {
        "ok"
    }

    fn cost() -> u64 {
        1
    }

    #[rate_limit(max = 7)]
    pub(super) async fn generic<T: Default + ToString>() -> String {
        T::default().to_string()
    }

    pub(super) struct Api;

    #[rate_limit(max = 8, by = global)]
    impl Api {
        pub(super) async fn list() -> &'static str {
            "ok"
        }
    }
}

fn limits_of(handler: &str) -> Vec<DeclaredLimit> {
    let module = concat!(module_path!(), "::declared");
    declared_limits()
        .into_iter()
        .filter(|limit| limit.module() == module && limit.handler() == handler)
        .collect()
}

#[test]
fn every_limit_is_listed_once() {
    assert_eq!(limits_of("bare").len(), 1);
    assert_eq!(limits_of("several").len(), 2);
    assert_eq!(limits_of("generic").len(), 1);
    assert_eq!(limits_of("Api::list").len(), 1);
    let _ = App::new().service(declared::bare).service(declared::several);
    let _ =
        (web::to(declared::generic::<u8>), web::to(declared::generic::<u16>), web::to(declared::Api::list));
}

#[test]
fn a_bare_limit_lists_its_defaults() {
    let [limit] = limits_of("bare")[..] else { panic!() };
    let policy = limit.policy();
    assert_eq!(policy.key(), concat!(module_path!(), "::declared::bare"));
    assert_eq!(policy.name(), policy.key());
    assert_eq!((limit.max(), policy.window()), (Some(100), Duration::from_secs(60)));
    assert_eq!(policy.algorithm(), Algorithm::SlidingWindowCounter);
    assert_eq!((limit.cost(), limit.by(), limit.count(), limit.skips()), (Some(1), "ip", "all", false));
    assert!(limit.file().ends_with("listing.rs"), "{}", limit.file());
    let source = include_str!("listing.rs");
    let line = usize::try_from(limit.line()).unwrap();
    assert!(source.lines().nth(line - 1).unwrap().contains("async fn bare"));
}

#[test]
fn values_chosen_per_request_are_listed_as_chosen() {
    let [fixed, chosen] = limits_of("several")[..] else { panic!() };
    let policy = fixed.policy();
    assert_eq!((policy.key(), policy.name(), fixed.by()), ("user:<id>", "user", "path(\"id\")"));
    assert_eq!((fixed.max(), fixed.cost(), policy.window()), (Some(10), Some(2), Duration::from_secs(5400)));
    assert_eq!((chosen.max(), chosen.cost(), chosen.skips()), (None, None, true));
    assert_eq!(chosen.count(), "failures");
    assert_eq!(chosen.by(), "(path(\"id\"), |req: &HttpRequest| req.path().len())");
}

#[test]
fn each_limit_displays_as_one_line() {
    let text = limits_of("Api::list")[0].to_string();
    let begin =
        concat!(module_path!(), "::declared::Api::list: 8 per 60s by global, SlidingWindowCounter, key ");
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("listing.rs:"), "{text}");
    let chosen = limits_of("several")[1].to_string();
    assert!(chosen.contains(": chosen per 60s by (path(\"id\")"), "{chosen}");
    assert!(chosen.contains(", cost chosen, counts failures, with exceptions ("), "{chosen}");
}

#[test]
fn limits_are_listed_in_source_order() {
    let places: Vec<_> =
        declared_limits().iter().map(|limit| (limit.module(), limit.file(), limit.line())).collect();
    assert!(places.is_sorted());
    assert!(places.len() > 50, "{}", places.len());
}
