//! Without arguments: 100 per 60 s and client.

use actix_web::{HttpResponse, Responder, get};
use ratelimit_actix::rate_limit;

#[rate_limit]
#[get("/a")]
async fn bare() -> impl Responder {
    HttpResponse::Ok()
}

#[rate_limit()]
#[get("/b")]
async fn empty() -> &'static str {
    "ok"
}

pub fn main() {
    let _ = actix_web::App::new().service(bare).service(empty);
}
