//! A budget for each billing month beside a rate for each minute. The months of an account begin on its own
//! billing day. An account that moves the day gets at most one budget for each month in which one begins.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::process::ExitCode;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::ReqData;
use actix_web::{App, Error, HttpMessage, HttpServer, Responder, Result, get, web};
use ratelimit_actix::{Quotas, RateLimiter, rate_limit};

/// What the authentication knows of an account.
#[derive(Clone, Copy)]
struct Account {
    id: u64,
    /// From 1 to 31.
    billing_day: u8,
}

/// The accounts by their API keys. A real service looks up a digest of the key in its database.
const ACCOUNTS: [(&str, Account); 2] =
    [("alice-key", Account { id: 1, billing_day: 1 }), ("bob-key", Account { id: 2, billing_day: 31 })];

/// Middleware that puts the verified account into the request.
async fn authenticate(
    req: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let sent = req.headers().get("x-api-key");
    let Some((_, account)) = ACCOUNTS.iter().find(|(key, _)| sent.is_some_and(|sent| sent == key)) else {
        return Err(ErrorUnauthorized("unknown API key"));
    };
    req.extensions_mut().insert(*account);
    next.call(req).await
}

/// 60 per minute, and three per billing month: a request takes a unit of both, or of none. The budget ends at
/// midnight in Berlin.
#[rate_limit(max = 60, window = "1m", key = "rate", by = |of: ReqData<Account>| of.id)]
#[rate_limit(
    max = 3,
    window = "month",
    zone = "Europe/Berlin",
    anchor = |of: ReqData<Account>| of.billing_day,
    key = "budget",
    by = |of: ReqData<Account>| of.id
)]
#[get("/translate")]
async fn translate(quotas: Quotas) -> Result<impl Responder> {
    let budget = quotas.limit("budget")?.quota();
    Ok(budget.map_or_else(String::new, |budget| {
        let calendar = budget.policy().calendar().map(ToString::to_string).unwrap_or_default();
        format!("{} left, {} per {calendar}\n", budget.outcome().remaining(), budget.policy().max())
    }))
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    // A real service counts months in a Redis that keeps its data.
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || {
        App::new().app_data(web::Data::new(limiter.clone())).wrap(from_fn(authenticate)).service(translate)
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -H 'X-API-Key: alice-key' http://ADDRESS/translate",
            "curl -H 'X-API-Key: bob-key' http://ADDRESS/translate",
        ],
    );
    Ok(server.run().await?)
}
