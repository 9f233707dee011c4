//! A service behind proxies: limits apply to the client, not to the proxy, and a client cannot forge its
//! address.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `TRUSTED_PROXIES` | networks of the proxies, separated by commas, such as `10.0.0.0/8,127.0.0.1` | none |
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::error::Error;
use std::process::ExitCode;

use actix_web::{App, HttpServer, Responder, get, web};
use ratelimit_actix::{ForwardedHeader, RateLimitConfig, RateLimiter, rate_limit};

/// 3 per minute for each client.
#[rate_limit(max = 3, window = "1m")]
#[get("/")]
async fn index() -> impl Responder {
    "hello\n"
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let config = config()?;
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || {
        App::new().app_data(config.clone()).app_data(web::Data::new(limiter.clone())).service(index)
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &["curl -i http://ADDRESS/", "curl -i -H 'X-Forwarded-For: 203.0.113.9' http://ADDRESS/"],
    );
    Ok(server.run().await?)
}

/// Uses `X-Forwarded-For` only if the peer is one of the proxies.
fn config() -> Result<RateLimitConfig, Box<dyn Error>> {
    let proxies = settings::variable("TRUSTED_PROXIES")?.unwrap_or_default();
    // Unset and empty both mean that there is no proxy.
    let proxies = if proxies.trim().is_empty() { Vec::new() } else { proxies.split(',').collect() };
    let config = RateLimitConfig::builder().trusted_proxies(proxies, ForwardedHeader::XForwardedFor);
    config.build().map_err(|error| format!("TRUSTED_PROXIES cannot be used: {error}").into())
}
