//! Above, below and between route attributes.

use actix_web::{App, HttpResponse, Responder, get, post, route, routes, web};
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, window = "60s")]
#[get("/above/{id}")]
async fn above(id: web::Path<u64>) -> impl Responder {
    id.to_string()
}

#[get("/below/{id}")]
#[rate_limit(max = 10, window = "60s")]
async fn below(id: web::Path<u64>) -> impl Responder {
    id.to_string()
}

#[rate_limit(max = 10, window = "1s")]
#[post("/around")]
#[rate_limit(max = 100, window = "1h")]
async fn around(body: String) -> impl Responder {
    body
}

#[rate_limit]
#[route("/methods", method = "GET", method = "HEAD")]
async fn methods() -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[route("/methods_below", method = "GET", method = "HEAD")]
#[rate_limit]
async fn methods_below() -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[rate_limit]
#[routes]
#[get("/one")]
#[put("/two")]
async fn several() -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[routes]
#[patch("/three")]
#[delete("/four")]
#[rate_limit]
async fn several_below() -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[rate_limit]
#[actix_web::get("/path")]
async fn by_path() -> HttpResponse {
    HttpResponse::Ok().finish()
}

pub fn main() {
    let _ = App::new()
        .service(above)
        .service(below)
        .service(around)
        .service(methods)
        .service(methods_below)
        .service(several)
        .service(several_below)
        .service(by_path);
}
