//! Without a route attribute: `.to(handler)` and resources.

use actix_web::{App, Responder, web};
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, window = "60s")]
async fn user(id: web::Path<u64>) -> impl Responder {
    id.to_string()
}

#[rate_limit(max = 1, window = "1m")]
async fn everything_else() -> impl Responder {
    "not here"
}

/// Called as a function below.
#[rate_limit(max = 10, inner = form_directly)]
async fn form(id: web::Path<u64>) -> String {
    id.to_string()
}

struct Api;

impl Api {
    #[rate_limit(key = "api-list")]
    pub async fn list() -> impl Responder {
        "[]"
    }
}

pub fn main() {
    drop(form_directly(web::Path::from(7)));
    let _ = App::new()
        .route("/user/{id}", web::get().to(user))
        .service(web::resource("/users/{id}").route(web::post().to(user)))
        .service(web::resource("/any/{id}").to(user))
        .service(web::scope("/api").route("", web::get().to(Api::list)))
        .route("/form/{id}", web::post().to(form))
        .default_service(web::to(everything_else));
}
