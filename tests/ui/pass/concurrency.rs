//! Concurrency limits in every position, beside rates and alone.

use actix_web::web::Path;
use actix_web::{App, HttpRequest, Responder, get, post, web};
use ratelimit_actix::{Policy, concurrency_limit, rate_limit};

static STREAMS: Policy = Policy::concurrency("streams", 3);
const FEW: u64 = 2;

#[concurrency_limit(max = 3, by = ip, name = "above")]
#[rate_limit(max = 60, window = "1m")]
#[post("/above")]
async fn above() -> impl Responder {
    "ok"
}

#[post("/below")]
#[rate_limit(max = 60, window = "1m")]
#[concurrency_limit(max = FEW, by = global)]
async fn below() -> impl Responder {
    "ok"
}

#[concurrency_limit(policy = STREAMS)]
#[get("/between/{id}")]
#[ratelimit_actix::concurrency_limit(max = |id: Path<u64>| *id, key = "one", on_error = "deny")]
async fn between(id: Path<u64>) -> impl Responder {
    id.to_string()
}

#[concurrency_limit(max = 1, key = "user:{ip}", skip = |req: &HttpRequest| req.path() == "/", mode = "shadow")]
async fn mounted() -> impl Responder {
    "ok"
}

#[concurrency_limit(max = 2)]
mod api {
    use super::{Responder, get};

    #[get("/inside")]
    pub async fn inside() -> impl Responder {
        "ok"
    }

    #[get("/own")]
    #[rate_limit]
    #[concurrency_limit(max = 5, inner = own_body)]
    pub async fn own() -> impl Responder {
        "ok"
    }

    #[get("/free")]
    #[no_rate_limit]
    pub async fn free() -> impl Responder {
        "ok"
    }
}

struct Users;

#[rate_limit(max = 10)]
#[concurrency_limit(max = 2, key = "users")]
impl Users {
    async fn list() -> impl Responder {
        Self::text()
    }

    fn text() -> &'static str {
        "ok"
    }
}

pub fn main() {
    let app = App::new().service(above).service(below).service(between).service(api::inside);
    let app = app.service(api::own).service(api::free).route("/", web::get().to(mounted));
    drop(app.route("/users", web::get().to(Users::list)));
    let _ = api::own_body;
}
