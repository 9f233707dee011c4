//! Two stacked limits, and the header fields and bodies that report them in every style.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HEADER_STYLE` | `legacy`, `draft-11`, `draft-06` or `none` | `legacy` |
//! | `BODY_STYLE` | `json`, `problem` (RFC 9457) or `text` | `json` |
//! | `PORT` | port to listen on, on 127.0.0.1; 0 for any free port | `8080` |

mod settings;

use std::error::Error;
use std::process::ExitCode;

use actix_web::{App, HttpServer, Responder, get, web};
use ratelimit_actix::{BodyStyle, HeaderStyle, RateLimitConfig, RateLimiter, rate_limit};

/// A request must pass both limits; it is charged to both or to none.
#[rate_limit(max = 2, window = "1m", key = "burst")]
#[rate_limit(max = 100, window = "1h", key = "hourly")]
#[get("/")]
async fn index() -> impl Responder {
    "hello\n"
}

fn main() -> ExitCode {
    settings::run(serve())
}

async fn serve() -> settings::Outcome {
    let address = settings::address()?;
    let config = RateLimitConfig::builder().headers(header_style()?).body(body_style()?).build()?;
    let limiter = RateLimiter::in_memory();
    let server = HttpServer::new(move || {
        App::new().app_data(config.clone()).app_data(web::Data::new(limiter.clone())).service(index)
    });
    let server = server.workers(2).bind(address).map_err(settings::cannot_listen(address))?;
    settings::introduce(&server.addrs(), &["for i in 1 2 3; do curl -i http://ADDRESS/; done"]);
    Ok(server.run().await?)
}

fn header_style() -> Result<Option<HeaderStyle>, Box<dyn Error>> {
    Ok(match settings::variable("HEADER_STYLE")?.as_deref() {
        None | Some("legacy") => Some(HeaderStyle::LegacyUnix),
        Some("draft-11") => Some(HeaderStyle::Draft11),
        Some("draft-06") => Some(HeaderStyle::Draft06),
        Some("none") => None,
        Some(_) => return Err("HEADER_STYLE must be legacy, draft-11, draft-06 or none".into()),
    })
}

fn body_style() -> Result<BodyStyle, Box<dyn Error>> {
    Ok(match settings::variable("BODY_STYLE")?.as_deref() {
        None | Some("json") => BodyStyle::Json,
        Some("problem") => BodyStyle::Problem,
        Some("text") => BodyStyle::Text,
        Some(_) => return Err("BODY_STYLE must be json, problem or text".into()),
    })
}
