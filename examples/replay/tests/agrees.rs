//! A replay decides as the service does: the same requests, once as a log and once sent, with the same clock.

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpRequest, HttpResponse, get, post, web};
use ratelimit_actix::{MemoryStore, RateLimiter, Timestamp, rate_limit};
use ratelimit_core::clock::FakeClock;

use crate::limits;
use crate::line::Request;
use crate::replay::{Answer, Replay};

/// The limits of the service below.
const LIMITS: &str = r#"
[limit.burst]
path = "/items/{id}"
max = 1
window = "10s"
algorithm = "token_bucket"
burst = 3

[limit.steady]
path = "/items/{id}"
max = 25
window = "5m"

[limit.tenant]
path = "/search"
by = "header:x-tenant"
max = 5
window = "1m"
algorithm = "sliding_window_log"

[limit.login]
path = "/login"
methods = ["POST"]
count = "failures"
max = 2
window = "30s"
algorithm = "fixed_window"
block = "45s"

[limit.fine]
path = "/fine"
by = "everyone"
count = "successes"
max = 6
window = "1m"
sub_windows = 6
"#;

#[rate_limit(max = 1, window = "10s", key = "burst", algorithm = "token_bucket", burst = 3)]
#[rate_limit(max = 25, window = "5m", key = "steady")]
#[get("/items/{id}")]
async fn items(req: HttpRequest) -> HttpResponse {
    answer(&req)
}

#[rate_limit(max = 5, window = "1m", key = "tenant", by = header("x-tenant"), algorithm = "sliding_window_log")]
#[get("/search")]
async fn search(req: HttpRequest) -> HttpResponse {
    answer(&req)
}

#[rate_limit(
    max = 2,
    window = "30s",
    key = "login",
    count = "failures",
    algorithm = "fixed_window",
    block = "45s"
)]
#[post("/login")]
async fn login(req: HttpRequest) -> HttpResponse {
    answer(&req)
}

#[rate_limit(max = 6, window = "1m", key = "fine", by = global, count = "successes", sub_windows = 6)]
#[get("/fine")]
async fn fine(req: HttpRequest) -> HttpResponse {
    answer(&req)
}

/// With the status that the request asks for.
fn answer(req: &HttpRequest) -> HttpResponse {
    let status = req.headers().get("x-status").unwrap().to_str().unwrap().parse().unwrap();
    HttpResponse::build(StatusCode::from_u16(status).unwrap()).finish()
}

/// One made-up request.
struct Made {
    at: Timestamp,
    client: &'static str,
    method: &'static str,
    path: &'static str,
    status: u16,
}

impl Made {
    fn all() -> Vec<Self> {
        let clients = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"];
        let places = [
            ("GET", "/items/7"),
            ("GET", "/search"),
            ("POST", "/login"),
            ("GET", "/fine"),
            ("GET", "/items/8"),
        ];
        let mut state = 1_u64;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 40).unwrap() % end
        };
        let mut micros = 1_763_596_800_000_000;
        let mut made = Vec::new();
        for _ in 0..4_000 {
            // Often at once, seldom after a pause.
            micros += [0, 0, 250_000, 1_000_000, 3_000_001][below(5)] * u64::from(below(40) > 0)
                + 40_000_000 * u64::from(below(200) == 0);
            let (method, path) = places[below(places.len())];
            let status = [200, 302, 401, 500][below(4)];
            made.push(Self {
                at: Timestamp::from_micros(micros),
                client: clients[below(5)],
                method,
                path,
                status,
            });
        }
        made
    }

    /// As a line of a log.
    fn line(&self) -> String {
        let Self { client, method, path, status, .. } = self;
        let (seconds, micros) = (self.at.as_micros() / 1_000_000, self.at.as_micros() % 1_000_000);
        format!(
            "{{\"time\": {seconds}.{micros:06}, \"ip\": \"{client}\", \"method\": \"{method}\", \"path\": \"{path}?q=1\", \
             \"status\": {status}, \"headers\": {{\"X-Tenant\": \"{client}\"}}}}"
        )
    }

    fn request(&self) -> TestRequest {
        TestRequest::with_uri(self.path)
            .method(self.method.parse().unwrap())
            .peer_addr(SocketAddr::new(self.client.parse().unwrap(), 443))
            .insert_header(("x-tenant", self.client))
            .insert_header(("x-status", self.status.to_string()))
    }
}

#[actix_web::test]
async fn a_replay_and_a_limited_service_agree_about_every_request() {
    let clock = FakeClock::default();
    let limiter = RateLimiter::new(MemoryStore::new().with_clock(clock.clone()));
    let app = App::new()
        .app_data(web::Data::new(limiter))
        .service(items)
        .service(search)
        .service(login)
        .service(fine);
    let service = init_service(app).await;
    let mut replay = Replay::new(limits::parse(LIMITS, "limits.toml").unwrap(), 1_000, false).unwrap();
    let mut denied = 0;
    for (number, made) in Made::all().into_iter().enumerate() {
        clock.set(made.at);
        let response = call_service(&service, made.request().to_request()).await;
        let served = if response.status() == StatusCode::TOO_MANY_REQUESTS {
            Some(response.headers().get(RETRY_AFTER).unwrap().to_str().unwrap().parse().unwrap())
        } else {
            assert_eq!(response.status().as_u16(), made.status);
            None
        };
        drop(response);
        let line = made.line();
        let replayed = match replay.request(&Request::parse(line.as_bytes()).unwrap()).unwrap() {
            Answer::Admitted => None,
            Answer::Denied(wait) => Some(wait.map(seconds).unwrap()),
            other => panic!("{other:?}: {line}"),
        };
        assert_eq!(replayed, served, "request {number}: {line}");
        denied += u64::from(served.is_some());
    }
    assert!((400..3_600).contains(&denied), "{denied}");
    for (limit, tally) in replay.limits.iter().zip(&replay.tallies) {
        let (key, denied, requests) = (limit.policy.key(), tally.denied, tally.requests);
        assert!(denied > 10 && denied < requests, "{key}: {denied} of {requests}");
    }
}

/// As in `Retry-After`: rounded up, at least 1.
fn seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000_000).max(1)).unwrap()
}
