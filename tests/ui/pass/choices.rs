//! What is chosen for each request, and which answers count.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{App, HttpRequest, get};
use ratelimit_actix::rate_limit;

struct Plans;

impl Plans {
    fn of(_: &HttpRequest) -> u64 {
        10
    }

    async fn later(_: &HttpRequest) -> u64 {
        10
    }

    fn extracted(_: Data<Self>, id: Path<u64>) -> u64 {
        *id
    }

    async fn extracted_later(_: Data<Self>, _: HttpRequest) -> bool {
        false
    }

    const fn is_bad(status: StatusCode) -> bool {
        matches!(status, StatusCode::BAD_REQUEST)
    }
}

fn everywhere() -> u64 {
    3
}

#[rate_limit(max = with(Plans::of), cost = with(everywhere), skip = with(Plans::extracted_later))]
#[rate_limit(max = with(Plans::later), count = "all")]
#[rate_limit(max = with(Plans::extracted), count = "failures")]
#[get("/functions/{id}")]
async fn functions() -> &'static str {
    "ok"
}

#[rate_limit(
    max = |req: &HttpRequest| if req.path().is_empty() { 10 } else { 100 },
    cost = |id: Path<u64>| { *id },
    skip = async |req: &HttpRequest| req.path().is_empty(),
    count = |status| status.is_success(),
    algorithm = "token_bucket",
    burst = 20
)]
#[rate_limit(max = async |_: HttpRequest, id: Path<u64>| *id, count = |status: StatusCode| status == StatusCode::OK)]
#[rate_limit(count = with(Plans::is_bad), by = global)]
#[rate_limit(count = "successes", sub_windows = 6)]
#[get("/closures/{id}")]
async fn closures(id: Path<u64>) -> String {
    id.to_string()
}

fn main() {
    let _ = App::new().service(functions).service(closures);
}
