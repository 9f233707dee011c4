//! Protection of a log-in: wrong passwords count by address and by account, and too many block the account
//! for ten minutes.
//!
//! The limit by address stops one client that tries many accounts. The limit by account stops many clients
//! that try one account. A client that guesses can also block an account on purpose: a real service lets the
//! owner in by another way, such as a link by mail, or counts by account and address together.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::process::ExitCode;

use actix_web::{App, HttpResponse, HttpServer, Responder, post, web};
use ratelimit_actix::{RateLimiter, concurrency_limit, rate_limit};

/// The accounts and their passwords. A real service keeps a slow hash of each password.
const PASSWORDS: [(&str, &str); 2] = [("alice", "correct horse"), ("bob", "battery staple")];

/// 60 wrong passwords per minute from an address, and 10 in ten minutes for an account; the next attempt
/// blocks the account for ten minutes. Three attempts for an account are checked at a time.
///
/// The limit by address charges each attempt before it is checked, and gives right ones back: at most 60
/// attempts are in flight. The limit of the account has a block, so it charges wrong passwords when they are
/// known: right ones never begin the block.
///
/// With Redis, no log-in succeeds during an outage: otherwise an outage would be the time to guess.
#[rate_limit(max = 60, window = "1m", count = "failures", key = "login-from:{ip}", on_error = "deny")]
#[rate_limit(
    max = 10,
    window = "10m",
    block = "10m",
    count = "failures",
    key = "login-as:{name}",
    on_error = "deny"
)]
#[concurrency_limit(max = 3, key = "logins-at-once:{name}", on_error = "deny")]
#[post("/login/{name}")]
async fn login(name: web::Path<String>, password: String) -> impl Responder {
    let is_right = PASSWORDS.iter().any(|(account, right)| name.as_str() == *account && password == *right);
    if is_right {
        HttpResponse::Ok().body("welcome\n")
    } else {
        // The same for an unknown account, so that the response does not tell which accounts exist.
        HttpResponse::Unauthorized().body("wrong name or password\n")
    }
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || App::new().app_data(web::Data::new(limiter.clone())).service(login));
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(
        &server.addrs(),
        &[
            "curl -i -d 'correct horse' http://ADDRESS/login/alice",
            "curl -i -d guess http://ADDRESS/login/alice",
        ],
    );
    Ok(server.run().await?)
}
