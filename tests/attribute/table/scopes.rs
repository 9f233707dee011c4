//! The limits of middleware in the table: for each row that has a method of [`Limit`], at least one.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::{self, Path, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use ratelimit_actix::ratelimit_core::policy::Calendar;
use ratelimit_actix::{
    Caller, IntoCaller, Limit, OnMissing, Policy, PolicyBuilder, RateLimitMiddleware, Show, caller, count,
};

use super::handlers::{PLANNED, caller, is_internal};

const MINUTE: Duration = Duration::from_secs(60);

/// What a path parameter says.
fn in_path(req: &HttpRequest, name: &str) -> u64 {
    req.match_info().get(name).unwrap().parse().unwrap()
}

fn named(req: &HttpRequest) -> Caller {
    caller(req).into_caller()
}

fn day(req: &HttpRequest) -> Calendar {
    Calendar::month(in_path(req, "day").try_into().unwrap())
}

fn one(key: &'static str) -> Limit {
    Limit::new(Policy::new(key, 1, MINUTE))
}

fn three(key: &'static str) -> PolicyBuilder {
    Policy::builder(key).max(3)
}

/// Each limit, and the path of a handler in it. The path begins with the row.
pub(super) fn limits() -> Vec<(&'static str, Limit)> {
    let month = Policy::builder("scope-anchor").max(1).calendar(Calendar::month(1).clamped()).build();
    let missing = |key| one(key).by(named);
    let failing = |key| Limit::new(three(key).build()).count(count::failures);
    let blocking = Limit::new(three("scope-block").block(24 * 60 * MINUTE).build());
    let planned = Limit::new(&PLANNED).by(|_| "scope").plan(|req| caller(req).map(str::to_owned));
    vec![
        ("/max/scope/{n}", one("scope-max").max(|req| in_path(req, "n"))),
        ("/anchor/scope/{day}", Limit::new(month).by(|req| caller::path_param(req, "day")).anchor(day)),
        ("/by/scope", one("scope-by").by(named)),
        ("/by/scope/ip", one("scope-ip")),
        ("/by/scope/global", one("scope-global").by(caller::global)),
        ("/missing/scope/reject", missing("scope-reject")),
        ("/missing/scope/skip", missing("scope-skip").on_missing(OnMissing::Skip)),
        ("/missing/scope/anonymous", missing("scope-anonymous").on_missing(OnMissing::Anonymous)),
        ("/cost/scope/{n}", Limit::new(Policy::new("scope-cost", 10, MINUTE)).cost(|req| in_path(req, "n"))),
        ("/count/scope/all/{status}", Limit::new(three("scope-all").build())),
        ("/count/scope/failures/{status}", failing("scope-failures")),
        ("/count/scope/successes/{status}", Limit::new(three("scope-good").build()).count(count::successes)),
        (
            "/count/scope/closure/{status}",
            Limit::new(three("scope-404").build()).count(|status| status == 404),
        ),
        ("/charge/scope/before/{status}", failing("scope-before")),
        ("/charge/scope/after/{status}", failing("scope-after").charge_after().show(Show::Always)),
        ("/charge/scope/block/{status}", blocking.count(count::failures).show(Show::Always)),
        ("/show/scope/always/{status}", Limit::new(three("scope-always").build()).show(Show::Always)),
        ("/show/scope/denied/{status}", Limit::new(three("scope-denied").build()).show(Show::Denied)),
        ("/show/scope/after/{status}", failing("scope-hidden").charge_after()),
        ("/skip/scope", one("scope-skipping").skip(is_internal)),
        ("/plan/scope", planned),
    ]
}

/// Mounts a handler for each limit, with middleware around it.
pub(super) fn configure(app: &mut ServiceConfig) {
    for (path, limit) in limits() {
        let answer = async |req: HttpRequest, status: Option<Path<u16>>| {
            let status = req.match_info().get("status").and(status).map_or(200, Path::into_inner);
            HttpResponse::build(StatusCode::from_u16(status).unwrap()).finish()
        };
        app.service(web::resource(path).wrap(RateLimitMiddleware::new(limit)).to(answer));
    }
}
