//! Metrics for Prometheus, and a readiness probe that checks the store.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `REDIS_URL` | counts are shared through this Redis | counted in this process |
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, Responder, get, rt, web};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use ratelimit_actix::{RateLimiter, rate_limit, ratelimit_core::metrics};

#[rate_limit(max = 10, window = "60s", name = "public")]
#[get("/api/public")]
async fn public() -> impl Responder {
    "public data\n"
}

/// The endpoint that Prometheus scrapes. A real service exposes it to Prometheus only.
#[get("/metrics")]
async fn scrape(prometheus: web::Data<PrometheusHandle>) -> impl Responder {
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(prometheus.render())
}

/// Readiness: whether limits are shared. An instance that is not ready can still serve requests, by the
/// failure policies of its limits.
#[get("/ready")]
async fn ready(limiter: web::Data<RateLimiter>) -> impl Responder {
    if limiter.is_ready() {
        HttpResponse::Ok().body("ready\n")
    } else {
        HttpResponse::ServiceUnavailable().body("the store of the rate limiter is not connected\n")
    }
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let prometheus = PrometheusBuilder::new()
        .set_buckets(&[0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1])?
        // A turn may be minutes ahead; and a call has up to 128 requests.
        .set_buckets_for_metric(
            Matcher::Full(metrics::WAIT_SECONDS.to_owned()),
            &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0],
        )?
        .set_buckets_for_metric(
            Matcher::Full(metrics::BATCH_REQUESTS.to_owned()),
            &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        )?
        .install_recorder()?;
    metrics::describe();
    // The exporter keeps samples until a scrape or an upkeep call aggregates them.
    let upkeep = prometheus.clone();
    rt::spawn(async move {
        let mut ticks = rt::time::interval(Duration::from_secs(5));
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });

    // Create the limiter after the recorder is installed, so that no metric is lost.
    let limiter = match settings::variable("REDIS_URL")? {
        Some(url) => shared(&url).map_err(|error| format!("REDIS_URL cannot be used: {error}"))?,
        None => RateLimiter::in_memory(),
    };
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::new(limiter.clone()))
            .app_data(web::Data::new(prometheus.clone()))
            .service((public, scrape, ready))
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -i http://ADDRESS/api/public",
            "curl http://ADDRESS/ready",
            "curl -s http://ADDRESS/metrics | grep ^ratelimit",
        ],
    );
    Ok(server.run().await?)
}

#[cfg(feature = "redis")]
fn shared(url: &str) -> Result<RateLimiter, Box<dyn Error>> {
    Ok(RateLimiter::redis(url)?)
}

#[cfg(not(feature = "redis"))]
fn shared(_: &str) -> Result<RateLimiter, Box<dyn Error>> {
    Err("this service was built without its feature `redis`".into())
}
