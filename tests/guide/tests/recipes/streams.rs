//! Streams of a language model: at a time, a minute, and by tokens, in one group.

// recipe
use actix_web::{HttpResponse, Result, post};
use ratelimit_actix::{Quotas, UsageCounter, caller, concurrency_limit, rate_limit};

/// Three streams at a time, 60 a minute, and 100,000 tokens a minute for each account.
#[concurrency_limit(max = 3, name = "streams", by = caller::principal_or_ip)]
#[rate_limit(max = 60, window = "1m", name = "requests", by = caller::principal_or_ip)]
#[rate_limit(max = 100_000, window = "1m", name = "tokens", cost = 2000, algorithm = "token_bucket", by = caller::principal_or_ip)]
#[post("/chat")]
async fn chat(prompt: String, quotas: Quotas) -> Result<HttpResponse> {
    let used = UsageCounter::or_estimate();
    let settle = quotas.limit("tokens")?.settle_on_drop(&used)?;
    // The stream adds to `used`, and owns `settle`: dropped, it settles the tokens and frees the slot.
    Ok(HttpResponse::Ok().streaming(complete(prompt, used, settle)))
}
// end

use std::convert::Infallible;

use actix_http::Request;
use actix_web::body::BoxBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::Method;
use actix_web::web::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use ratelimit_actix::SettleOnDrop;

/// As many tokens as the prompt says.
fn complete(
    prompt: String,
    used: UsageCounter,
    settle: SettleOnDrop,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::iter(0..prompt.parse().unwrap()).map(move |_: u64| {
        let _settle = &settle;
        used.add(1);
        Ok(Bytes::from_static(b"token "))
    })
}

fn say(tokens: &'static str) -> Request {
    tests::answer::request(Method::POST, "/chat").set_payload(tokens).to_request()
}

#[actix_web::test]
async fn the_fourth_stream_at_a_time_is_denied_and_uses_up_nothing() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, chat);
        let call = async |tokens| -> ServiceResponse<BoxBody> { app.call(say(tokens)).await.unwrap() };
        let mut running = Vec::new();
        for status in [200, 200, 200, 429, 429] {
            let response = call("2000").await;
            assert_eq!(response.status().as_u16(), status);
            running.push(response);
        }
        let denied = running.pop().unwrap();
        assert!(!denied.headers().contains_key("retry-after"));
        running.clear();
        // Three were charged, and keep the estimate of their tokens: they were dropped before they were sent.
        let next = tests::answer::send_raw(&app, say("40000")).await;
        assert_eq!((next.status, next.quota().unwrap().1), (200, 56));
        // The slots are free, and the tokens are settled to what was sent.
        let statuses =
            [call("1").await, call("1").await, call("1").await].map(|response| response.status().as_u16());
        assert_eq!(statuses, [200, 200, 200]);
    })
    .await;
}
