//! An OpenAPI document that describes the limits: `utoipa` describes the operations, and `RateLimitResponses`
//! adds what their limits answer.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::process::ExitCode;

use actix_web::{App, HttpServer, Responder, get, post, web};
use ratelimit_actix::{
    BodyStyle, HeaderStyle, RateLimitConfig, RateLimitResponses, RateLimiter, caller, rate_limit,
};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

/// The user with this number.
///
/// `#[utoipa::path]` stands above `#[rate_limit]`. The document gets 429 from the limit.
#[utoipa::path(params(("id" = u64, Path)), responses((status = 200, description = "The user.", body = String)))]
#[rate_limit(max = 10, window = "1m", name = "user")]
#[get("/users/{id}")]
async fn user(id: web::Path<u64>) -> impl Responder {
    format!("user {id}\n")
}

/// Places an order.
///
/// A burst for each address, and a quota of each account: the document gets 400 for requests without an
/// account, and 503 for an outage of the store.
#[utoipa::path(responses((status = 201, description = "The order is placed.")))]
#[rate_limit(max = 5, window = "1s", name = "burst", algorithm = "token_bucket", burst = 20)]
#[rate_limit(max = 100, window = "1d", name = "orders", by = caller::principal, on_error = "deny")]
#[post("/orders")]
async fn order() -> impl Responder {
    "placed\n"
}

/// Whether the service runs. It has no limit, and its operation stays as it is.
#[utoipa::path(responses((status = 200, description = "The service runs.")))]
#[get("/health")]
async fn health() -> impl Responder {
    "ok\n"
}

#[derive(OpenApi)]
#[openapi(paths(user, order, health))]
struct Api;

/// The document of the operations, with their limits.
fn document(config: &RateLimitConfig) -> Result<Document, ratelimit_actix::UnclearOperationsError> {
    let mut document = Api::openapi();
    RateLimitResponses::new(config).apply(&mut document)?;
    Ok(document)
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let config =
        RateLimitConfig::builder().headers([HeaderStyle::LegacyDelta]).body(BodyStyle::Problem).build()?;
    let document = web::Data::new(document(&config)?);
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || {
        let app = App::new().app_data(config.clone()).app_data(web::Data::new(limiter.clone()));
        let json = |document: web::Data<Document>| async move { web::Json(document.get_ref().clone()) };
        app.app_data(document.clone())
            .service((user, order, health))
            .route("/openapi.json", web::get().to(json))
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -s http://ADDRESS/openapi.json | grep -o '\"x-ratelimit\":[^]]*]'",
            "curl -s http://ADDRESS/openapi.json | grep -o '\"[45][0-9][0-9]\":{\"description\":\"[^\"]*\"'",
            "curl -i http://ADDRESS/users/7",
        ],
    );
    Ok(server.run().await?)
}
