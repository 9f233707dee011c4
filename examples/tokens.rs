//! Costs that are known late, as in a service in front of a language model: a request is charged an estimate, and settled to
//! the true number of tokens when its answer ends.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::convert::Infallible;
use std::process::ExitCode;

use actix_web::http::header::ContentType;
use actix_web::web::Bytes;
use actix_web::{App, HttpResponse, HttpServer, Responder, Result, post, web};
use futures_util::stream::{self, StreamExt};
use ratelimit_actix::{HeaderStyle, Quotas, RateLimitConfig, RateLimiter, UsageCounter, rate_limit};

/// What an answer is expected to take.
const ESTIMATE: u64 = 50;

/// 20 requests per minute, and 200 tokens per hour.
///
/// The answer is as long as the path says. `used` counts its tokens while it is sent. When the stream ends, the limit `tokens` is
/// settled: a short answer gives the rest of the estimate back, a long one leaves a debt, for which later requests wait. If the
/// client goes away, it is settled to what was sent.
#[rate_limit(max = 20, window = "1m", key = "requests")]
#[rate_limit(max = 200, window = "1h", key = "tokens", cost = ESTIMATE)]
#[post("/chat/{tokens}")]
async fn chat(tokens: web::Path<u64>, quotas: Quotas) -> Result<impl Responder> {
    let used = UsageCounter::default();
    let settle = quotas.limit("tokens")?.settle_on_drop(&used)?;
    let answer = stream::iter(1..=*tokens).map(move |token| {
        // Owned by the stream, and dropped with it.
        let _settle = &settle;
        used.add(1);
        Ok::<_, Infallible>(Bytes::from(format!("token {token}\n")))
    });
    Ok(HttpResponse::Ok().content_type(ContentType::plaintext()).streaming(answer))
}

/// The same counts without a stream: the answer is complete before it is sent, and its header fields show what is left after it.
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
    let config = RateLimitConfig::builder().headers([HeaderStyle::Draft11]).build()?;
    let server = HttpServer::new(move || {
        let app = App::new().app_data(web::Data::new(limiter.clone())).app_data(config.clone());
        app.service((chat, complete))
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -i -X POST http://ADDRESS/complete/5",
            "curl -i -X POST http://ADDRESS/chat/300",
            "curl -i -X POST http://ADDRESS/chat/5",
        ],
    );
    Ok(server.run().await?)
}
