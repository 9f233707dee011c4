//! The handlers of the table: at least one for each row, and one for each form that a row allows.

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::web::{self, Path, ServiceConfig};
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse, Responder, error, get};
use ratelimit_actix::ratelimit_core::policy::Weekday;
use ratelimit_actix::{HeaderStyle, Policy, RateLimitConfig, RateLimitMiddleware, rate_limit};

/// A limit that is constant, but no literal.
const TWO: u64 = 2;

/// A policy of several handlers.
static SHARED: Policy = Policy::builder("table-shared").max(3).build();

/// A policy that overrides have plans for.
pub(super) static PLANNED: Policy = Policy::builder("planned").max(1).build();

fn number(req: &HttpRequest) -> u64 {
    req.path().len() as u64
}

async fn in_path(n: Path<u64>) -> u64 {
    std::future::ready(*n).await
}

fn day_in_path(day: Path<u8>) -> u8 {
    day.into_inner()
}

pub(super) fn caller(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-caller")?.to_str().ok()
}

pub(super) fn is_internal(req: &HttpRequest) -> bool {
    req.headers().contains_key("x-internal")
}

fn is_server_error(status: StatusCode) -> bool {
    status.is_server_error()
}

/// The user that sends the request, as an application determines it.
struct User(String);

impl FromRequest for User {
    type Error = Error;
    type Future = std::future::Ready<Result<Self, Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let user = caller(req).map(|name| Self(name.to_owned()));
        std::future::ready(user.ok_or_else(|| error::ErrorUnauthorized("who are you?")))
    }
}

/// Handlers that say `ok`, and the function that mounts them.
macro_rules! handlers {
    ($configure:ident: $($path:literal $name:ident ($($argument:tt)*);)*) => {
        $(
            #[rate_limit($($argument)*)]
            #[get($path)]
            async fn $name() -> &'static str {
                "ok"
            }
        )*

        fn $configure(app: &mut ServiceConfig) {
            app$(.service($name))*;
        }
    };
}

handlers! { plain:
    "/bare" bare ();
    "/max/number" max_number (max = 2);
    "/max/constant" max_constant (max = TWO);
    "/max/closure/{n}" max_closure (max = |n: Path<u64>| *n);
    "/max/async/{n}" max_async (max = async |n: Path<u64>| std::future::ready(*n).await);
    "/max/with/{n}" max_with (max = with(in_path));
    "/window/millis" window_millis (max = 1, window = "500ms", algorithm = "sliding_window_log");
    "/window/seconds" window_seconds (max = 1, window = "60s", algorithm = "sliding_window_log");
    "/window/mixed" window_mixed (max = 1, window = "1h30m", algorithm = "sliding_window_log");
    "/window/days" window_days (max = 1, window = "1d", algorithm = "sliding_window_log");
    "/zone/default" zone_default (max = 1, window = "day");
    "/zone/berlin" zone_berlin (max = 1, window = "day", zone = "Europe/Berlin");
    "/zone/tokyo" zone_tokyo (max = 1, window = "week", anchor = "thursday", zone = "Asia/Tokyo");
    "/anchor/week" anchor_week (max = 1, window = "week", anchor = "sunday");
    "/anchor/month" anchor_month (max = 1, window = "month", anchor = 15);
    "/anchor/year" anchor_year (max = 1, window = "year", anchor = "10-10");
    "/anchor/closure/{day}" anchor_closure (max = 1, window = "month", anchor = |day: Path<u8>| *day, by = path("day"));
    "/anchor/with/{day}" anchor_with (max = 1, window = "month", anchor = with(day_in_path), by = path("day"));
    "/anchor/weekday" anchor_weekday (max = 1, window = "week", anchor = |_: &HttpRequest| Weekday::Sunday);
    "/anchor/date" anchor_date (max = 1, window = "year", anchor = async |_: HttpRequest| (10, 10));
    "/key/one" key_one (max = 1, key = "shared");
    "/key/other" key_other (max = 1, key = "shared");
    "/key/own" key_own (max = 1);
    "/key/own-too" key_own_too (max = 1);
    "/key/user/{id}" key_user (max = 1, key = "user:{id}");
    "/key/ip/{id}" key_ip (max = 1, key = "ip:{ip}");
    "/key/header" key_header (max = 1, key = "caller:{header:X-Caller}");
    "/key/two/{a}/{b}" key_two (max = 1, key = "{a}:{b}");
    "/by/ip" by_ip (max = 1, by = ip);
    "/by/global" by_global (max = 1, by = global);
    "/by/header" by_header (max = 1, by = header("x-caller"));
    "/by/path/{id}" by_path (max = 1, by = path("id"));
    "/by/function" by_function (max = 1, by = caller);
    "/by/closure" by_closure (max = 1, by = |req: &HttpRequest| req.headers().get("x-caller")?.to_str().ok());
    "/by/extractor" by_extractor (max = 1, by = |req: HttpRequest| caller(&req).map(str::to_owned));
    "/by/async" by_async (max = 1, by = async |user: User| std::future::ready(user.0).await);
    "/by/user" by_user (max = 1, by = |user: User| user.0);
    "/by/tuple/{id}" by_tuple (max = 1, by = (caller, path("id"), |req: &HttpRequest| number(req), |user: User| user.0));
    "/missing/reject" missing_reject (max = 1, by = header("x-caller"), on_missing = "reject");
    "/missing/skip" missing_skip (max = 1, by = header("x-caller"), on_missing = "skip");
    "/missing/anonymous" missing_anonymous (max = 1, by = header("x-caller"), on_missing = "anonymous");
    "/error/local" error_local (max = 1, on_error = "local");
    "/error/deny" error_deny (max = 1, on_error = "deny");
    "/error/allow" error_allow (max = 1, on_error = "allow");
    "/algorithm/fixed_window" fixed (max = 2, window = "1h", algorithm = "fixed_window");
    "/algorithm/sliding_window_counter" counter (max = 2, window = "1h", algorithm = "sliding_window_counter");
    "/algorithm/sliding_window_log" log (max = 2, window = "1h", algorithm = "sliding_window_log");
    "/algorithm/token_bucket" bucket (max = 2, window = "1h", algorithm = "token_bucket");
    "/algorithm/default" default_algorithm (max = 2, window = "1h");
    "/sub/six" sub_six (max = 6, window = "1h", sub_windows = 6);
    "/sub/one" sub_one (max = 6, window = "1h", sub_windows = 1);
    "/burst" burst (max = 1, window = "1h", algorithm = "token_bucket", burst = 3);
    "/cost/number" cost_number (max = 10, cost = 4);
    "/cost/closure/{n}" cost_closure (max = 10, cost = |n: Path<u64>| *n);
    "/cost/with/{n}" cost_with (max = 10, cost = with(in_path));
    "/block" blocking (max = 2, window = "1m", block = "10m");
    "/mode/enforce" mode_enforce (max = 1, mode = "enforce");
    "/mode/shadow" mode_shadow (max = 1, mode = "shadow");
    "/lease/fixed" lease_fixed (max = 200, window = "1h", algorithm = "fixed_window", lease = "100ms");
    "/lease/default" lease_default (max = 200, window = "1h", lease = "1s");
    "/lease/tenths" lease_tenths (max = 200, window = "1h", sub_windows = 10, by = global, lease = "10s");
    "/skip/closure" skip_closure (max = 1, skip = |req: &HttpRequest| is_internal(req));
    "/skip/async" skip_async (max = 1, skip = async |req: HttpRequest| std::future::ready(is_internal(&req)).await);
    "/skip/with" skip_with (max = 1, skip = with(is_internal));
    "/plan" planned (policy = PLANNED, plan = caller);
    "/policy/one" policy_one (policy = SHARED);
    "/policy/other" policy_other (policy = SHARED);
    "/policy/caller" policy_caller (policy = SHARED, by = caller, cost = 2);
    "/renamed" renamed (max = 1, crate = crate::table::handlers::facade);
}

/// What the attribute finds under another name.
mod facade {
    pub(super) use ratelimit_actix::*;
}

/// Handlers that answer with the status in their path.
macro_rules! answering {
    ($configure:ident: $($path:literal $name:ident ($($argument:tt)*);)*) => {
        $(
            #[rate_limit(max = 3, $($argument)*)]
            #[get($path)]
            async fn $name(status: Path<u16>) -> impl Responder {
                HttpResponse::build(StatusCode::from_u16(*status).unwrap())
            }
        )*

        fn $configure(app: &mut ServiceConfig) {
            app$(.service($name))*;
        }
    };
}

answering! { counting:
    "/count/all/{status}" count_all (count = "all");
    "/count/failures/{status}" count_failures (count = "failures");
    "/count/successes/{status}" count_successes (count = "successes");
    "/count/closure/{status}" count_closure (count = |status| status == StatusCode::NOT_FOUND);
    "/count/with/{status}" count_with (count = with(is_server_error));
    "/charge/before/{status}" charge_before (count = "failures", charge = "before");
    "/charge/after/{status}" charge_after (count = "failures", charge = "after", show = "always");
    "/charge/block/{status}" charge_block (count = "failures", block = "1d", show = "always");
    "/show/always/{status}" show_always (show = "always");
    "/show/denied/{status}" show_denied (show = "denied");
    "/show/after/{status}" show_after (count = "failures", charge = "after");
}

#[rate_limit(max = 1, key = "of-scope:{path:org}")]
#[get("")]
async fn key_scope() -> &'static str {
    "ok"
}

#[rate_limit(max = 10, name = "shown", key = "the-name")]
#[get("/given")]
async fn name_given() -> &'static str {
    "ok"
}

#[rate_limit(max = 10, key = "the-key")]
#[get("/key")]
async fn name_of_the_key() -> &'static str {
    "ok"
}

#[rate_limit(max = 5, window = "month", anchor = 4, key = "quota")]
#[get("/drafts")]
async fn anchor_drafts() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, inner = double_directly)]
#[get("/double/{n}")]
pub(super) async fn double(n: Path<u64>) -> String {
    (*n * 2).to_string()
}

/// Mounts all of them.
pub(super) fn configure(app: &mut ServiceConfig) {
    let drafts = RateLimitConfig::builder().headers([HeaderStyle::Draft11]).build().unwrap();
    let anchors = web::scope("/anchor").app_data(drafts.clone()).service(anchor_drafts);
    let names = web::scope("/name").app_data(drafts).service(name_given).service(name_of_the_key);
    app.configure(plain).configure(counting).service(names).service(anchors).service(double);
    app.service(web::scope("/key/scope/{org}").service(key_scope));
    let scope = web::scope("/policy/scope").wrap(RateLimitMiddleware::new(&SHARED));
    app.service(scope.route("/free", web::get().to(async || "ok")));
}
