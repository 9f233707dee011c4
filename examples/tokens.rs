//! Costs that are known late, as in a service in front of a language model: a request is charged an estimate,
//! and settled to the true number of tokens when its answer ends. Two streams run at a time.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::convert::Infallible;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use actix_web::http::header::ContentType;
use actix_web::rt::time::sleep;
use actix_web::web::Bytes;
use actix_web::{App, HttpResponse, HttpServer, Responder, Result, post, web};
use futures_util::stream::{self, Stream, StreamExt};
use ratelimit_actix::{
    HeaderStyle, Quotas, RateLimitConfig, RateLimiter, UsageCounter, concurrency_limit, rate_limit,
};

/// What an answer is expected to take.
const ESTIMATE: u64 = 50;

/// What the made-up model writes at once.
const CHUNK: u64 = 30;

/// The numbers of an answer's tokens, as the made-up model writes them: a chunk each second.
fn model(tokens: u64) -> impl Stream<Item = Range<u64>> {
    stream::iter(0..tokens.div_ceil(CHUNK)).then(move |chunk| async move {
        if chunk > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        let first = chunk * CHUNK + 1;
        first..(first + CHUNK).min(tokens + 1)
    })
}

/// Two streams at a time, 20 requests per minute, and 200 tokens per hour: decided together.
///
/// The answer is as long as the path says. `used` counts its tokens while it is sent. When the stream ends,
/// the limit `tokens` is settled: a short answer gives the rest of the estimate back, a long one leaves a
/// debt, for which later requests wait. If the client goes away, it is settled to what was sent. Until then
/// the stream holds one of the two slots.
#[concurrency_limit(max = 2, key = "streams")]
#[rate_limit(max = 20, window = "1m", key = "requests")]
#[rate_limit(max = 200, window = "1h", key = "tokens", cost = ESTIMATE)]
#[post("/chat/{tokens}")]
async fn chat(tokens: web::Path<u64>, quotas: Quotas) -> Result<impl Responder> {
    let used = UsageCounter::default();
    let settle = quotas.limit("tokens")?.settle_on_drop(&used)?;
    let answer = model(*tokens).map(move |chunk| {
        // Owned by the stream, and dropped with it.
        let _settle = &settle;
        used.add(chunk.end - chunk.start);
        let lines: Vec<String> = chunk.map(|token| format!("token {token}\n")).collect();
        Ok::<_, Infallible>(Bytes::from(lines.concat()))
    });
    Ok(HttpResponse::Ok().content_type(ContentType::plaintext()).streaming(answer))
}

/// The same counts without a stream: the answer is complete before it is sent, and its header fields show
/// what is left after it.
#[rate_limit(max = 20, window = "1m", key = "requests")]
#[rate_limit(max = 200, window = "1h", key = "tokens", cost = ESTIMATE)]
#[post("/complete/{tokens}")]
async fn complete(tokens: web::Path<u64>, quotas: Quotas) -> Result<impl Responder> {
    let answer = format!("an answer of {tokens} tokens\n");
    quotas.limit("tokens")?.settle(*tokens).await?;
    Ok(answer)
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let limiter = RateLimiter::in_memory();
    // Fields that report both limits.
    let config = RateLimitConfig::builder().headers(HeaderStyle::Draft11).build()?;
    let server = HttpServer::new(move || {
        let app = App::new().app_data(web::Data::new(limiter.clone())).app_data(config.clone());
        app.service((chat, complete))
    });
    // A client that goes away is noticed at once, not when the next chunk cannot be sent.
    let server = server.h1_allow_half_closed(false);
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -i -X POST http://ADDRESS/complete/5",
            "curl -i -N --max-time 1.5 -X POST http://ADDRESS/chat/1000",
            "curl -i -X POST http://ADDRESS/complete/300",
            "curl -i -X POST http://ADDRESS/complete/5",
        ],
    );
    Ok(server.run().await?)
}
