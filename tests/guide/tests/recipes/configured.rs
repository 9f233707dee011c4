//! Numbers that the program reads when it starts.

use std::time::Duration;

struct Config {
    searches: u64,
    window: Duration,
}

impl Config {
    fn from_env() -> Self {
        Self { searches: 3, window: Duration::from_secs(120) }
    }
}

// recipe
use std::sync::LazyLock;

use actix_web::get;
use ratelimit_actix::{Overrides, Settings, rate_limit};

static CONFIG: LazyLock<Config> = LazyLock::new(Config::from_env);

#[rate_limit(max = || CONFIG.searches, window = "1m", name = "search")]
#[get("/search")]
async fn search() -> &'static str {
    "results"
}

/// For `RateLimiterBuilder::overrides`.
fn overrides() -> Overrides {
    Overrides::new().limit("search", Settings::new().window(CONFIG.window))
}
// end

#[actix_web::test]
async fn the_numbers_are_those_of_the_configuration() {
    crate::on_both_stores(async |limiter| {
        limiter.replace_overrides(overrides()).unwrap();
        let app = tests::service!(limiter, search);
        for left in [2, 1, 0] {
            let answer = tests::send(&app, tests::answer::get("/search")).await;
            assert_eq!((answer.status, answer.quota().unwrap().1), (200, left));
        }
        let denied = tests::send(&app, tests::answer::get("/search")).await;
        let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
        assert!(denied.status == 429 && (61..=240).contains(&wait), "{wait} s of a window of 120 s");
    })
    .await;
}
