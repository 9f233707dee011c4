//! Limits by API key: a key counts only after it has been verified.
//!
//! If an unverified header chose the count, a client could send a new key with every request and never be
//! limited. So authentication looks the key up and puts the account into the request as its `Principal`.
//! Limits count by the `Principal`, or by the address if there is none. Requests with wrong keys are counted
//! too, which limits guessing.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::process::ExitCode;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpMessage, HttpServer, Responder, get, web};
use ratelimit_actix::{Principal, Quotas, RateLimiter, caller, rate_limit};

/// The accounts by their API keys. A real service looks up a digest of the key in its database.
const ACCOUNTS: [(&str, u64); 2] = [("alice-key", 1), ("bob-key", 2)];

/// Middleware that puts the verified account into the request.
async fn authenticate(
    req: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let sent = req.headers().get("x-api-key");
    let known = ACCOUNTS.iter().find(|(key, _)| sent.is_some_and(|sent| sent == key));
    if let Some((_, account)) = known {
        req.extensions_mut().insert(Principal::new(*account));
    }
    next.call(req).await
}

/// 5 per minute for each account, and for each address without one.
#[rate_limit(max = 5, window = "1m", by = caller::principal_or_ip)]
#[get("/")]
async fn index(quotas: Quotas) -> impl Responder {
    format!("{} left\n", quotas.remaining().unwrap_or_default())
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || {
        App::new().app_data(web::Data::new(limiter.clone())).wrap(from_fn(authenticate)).service(index)
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -H 'X-API-Key: alice-key' http://ADDRESS/",
            "curl -H 'X-API-Key: made-up-1' http://ADDRESS/",
            "curl -H 'X-API-Key: made-up-2' http://ADDRESS/",
        ],
    );
    Ok(server.run().await?)
}
