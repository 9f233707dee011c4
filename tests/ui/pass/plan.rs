//! Every form of `plan`.

use std::borrow::Cow;

use actix_web::web::{Data, Path, ReqData};
use actix_web::{HttpRequest, get};
use ratelimit_actix::{IntoPlan, rate_limit};

#[derive(Clone)]
struct User {
    plan: String,
}

fn plan_of(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-plan")?.to_str().ok()
}

#[rate_limit(plan = plan_of)]
#[get("/a")]
async fn by_function() -> &'static str {
    "ok"
}

#[rate_limit(plan = |user: ReqData<User>| user.into_inner().plan)]
#[get("/b")]
async fn by_extractor() -> &'static str {
    "ok"
}

#[rate_limit(plan = async |_: Data<User>, id: Path<u64>| if *id == 7 { Some("pro") } else { None })]
#[get("/c/{id}")]
async fn by_async_closure() -> &'static str {
    "ok"
}

#[rate_limit(plan = |req: &HttpRequest| req.match_info().get("plan"), max = |_: &HttpRequest| 5)]
#[get("/d/{plan}")]
async fn borrowed() -> &'static str {
    "ok"
}

#[rate_limit(plan = |_: &HttpRequest| -> Cow<'static, str> { "pro".into() })]
#[get("/e")]
async fn with_a_type() -> &'static str {
    "ok"
}

pub fn main() {
    let _ = "pro".into_plan();
}
