//! `Self` of items inside a handler, names like those of an expansion, and the function's own inner
//! attributes.

use actix_web::{App, get, web};
use ratelimit_actix::rate_limit;

#[rate_limit]
#[get("/self")]
async fn with_items(req: web::Path<u64>) -> String {
    struct Doubled(u64);
    impl Doubled {
        fn new(number: u64) -> Self {
            Self(number * 2)
        }
    }
    let payload = Doubled::new(*req);
    let pass = payload.0;
    pass.to_string()
}

#[rate_limit]
#[get("/captured")]
async fn captured(user: web::Path<u64>, request: actix_web::HttpRequest) -> String {
    format!("{user}{}", request.path())
}

#[rate_limit]
#[get("/levels")]
async fn levels() -> &'static str {
    #![allow(unused_variables)]
    let unused = 1;
    "ok"
}

pub fn main() {
    let _ = App::new().service(with_items).service(captured).service(levels);
}
