//! The recipes of `docs/recipes.md`: the text between `// recipe` and `// end` of each file is on the page,
//! and its tests run it.
#![allow(
    clippy::unwrap_used,
    clippy::unused_async,
    clippy::needless_pass_by_value,
    reason = "tests, and handlers that only answer"
)]

use ratelimit_actix::RateLimiter;

/// Runs a test on both stores, under a clock that stands still: in memory, and on a Redis if there is one.
async fn on_both_stores(test: impl AsyncFn(RateLimiter)) {
    let (limiter, clock) = tests::store::clocked();
    test(limiter).await;
    if let Some(server) = tests::redis::server() {
        test(server.limiter_at(&clock)).await;
    }
}

mod api_keys;
mod budget;
mod bytes;
mod configured;
mod import;
mod login;
mod login_form;
mod login_redirect;
mod mcp;
mod proxies;
mod service;
mod streams;
#[cfg(target_os = "linux")]
mod vanished;
mod websocket;
mod wrong_keys;
