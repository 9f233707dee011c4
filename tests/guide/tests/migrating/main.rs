//! The services of `docs/migrating.md`: the text between `// ours` and `// end` is on the page. Both sides
//! compile, and where theirs needs no server, both sides answer the same requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unused_async,
    clippy::needless_pass_by_value,
    reason = "tests, and handlers that only answer"
)]

mod actix_extensible_rate_limit;
mod actix_governor;
mod actix_limitation;

use actix_web::dev::{Service, ServiceResponse};
use actix_web::{Error, body::MessageBody};

/// How many of 20 requests of one client to a path pass.
async fn passing<B: MessageBody>(
    app: &impl Service<actix_http::Request, Response = ServiceResponse<B>, Error = Error>,
    path: &str,
) -> usize {
    let mut passed = 0;
    for _ in 0..20 {
        // Middleware of others may report a denial as an error.
        passed += usize::from(
            app.call(tests::answer::get(path).to_request()).await.is_ok_and(|answer| answer.status() == 200),
        );
    }
    passed
}
