//! A scope with a limit for all its routes, one route with a tighter limit, and one without any.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::process::ExitCode;
use std::time::Duration;

use actix_web::{App, HttpServer, Responder, get, web};
use ratelimit_actix::{Policy, RateLimitMiddleware, RateLimiter, rate_limit};

/// 5 per minute for each client, for the whole scope.
static API: Policy = Policy::new("api", 5, Duration::from_secs(60));

#[get("/items/{id}")]
async fn item(id: web::Path<u64>) -> impl Responder {
    format!("item {id}\n")
}

/// Limited by the scope and by its own limit.
#[rate_limit(max = 1, window = "1m", key = "report")]
#[get("/report")]
async fn report() -> impl Responder {
    "report\n"
}

/// Not limited.
#[get("/health")]
async fn health() -> impl Responder {
    "up\n"
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || {
        let limit = RateLimitMiddleware::new(&API).exclude_pattern("/api/health");
        let api = web::scope("/api").wrap(limit).service((item, report, health));
        App::new().app_data(web::Data::new(limiter.clone())).service(api)
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -i http://ADDRESS/api/items/7",
            "curl -i http://ADDRESS/api/report",
            "curl -i http://ADDRESS/api/health",
        ],
    );
    Ok(server.run().await?)
}
