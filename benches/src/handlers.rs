//! One-route apps, called without a network: bare, limited by us, and limited by peers.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix_extensible_rate_limit::RateLimiter as Extensible;
use actix_extensible_rate_limit::backend::SimpleInputFunctionBuilder;
use actix_extensible_rate_limit::backend::memory::InMemoryBackend;
use actix_governor::{Governor, GovernorConfigBuilder};
use actix_http::Request;
use actix_limitation::{Limiter, RateLimiter as Limitation};
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, Error, get, web};
use ratelimit_actix::{
    HeaderStyle, MemoryStore, Overrides, RateLimitConfig, RateLimitMiddleware, RateLimiter, rate_limit,
};

use crate::{MAX, WINDOW, ours};

/// The app without a limit.
pub const BARE: &str = "bare";
/// The attribute, in memory.
pub const OURS: &str = "ours";
/// The attribute, through Redis.
pub const OURS_REDIS: &str = "ours, through Redis";
/// actix-governor with the header fields of the quota.
pub const GOVERNOR: &str = "actix-governor";
/// actix-extensible-rate-limit in memory.
pub const EXTENSIBLE: &str = "actix-extensible-rate-limit";
/// actix-limitation, which has no store but Redis.
pub const LIMITATION: &str = "actix-limitation, through Redis";
/// The attribute without fields.
pub const OURS_SILENT: &str = "ours, no header fields";
/// actix-governor as it comes.
pub const GOVERNOR_SILENT: &str = "actix-governor, no header fields";
/// Ours as middleware.
pub const OURS_MIDDLEWARE: &str = "ours, as middleware";
/// Two attributes on one handler.
pub const OURS_TWO: &str = "ours, two limits";
/// The attribute, with overrides of another limit.
pub const OURS_OVERRIDES: &str = "ours, overrides of another limit";
/// The attribute with the IETF's fields.
pub const OURS_DRAFT: &str = "ours, IETF draft 11 fields";

/// Those that need no server.
pub const IN_MEMORY: [&str; 10] = [
    BARE,
    OURS,
    OURS_OVERRIDES,
    OURS_SILENT,
    OURS_DRAFT,
    OURS_TWO,
    OURS_MIDDLEWARE,
    GOVERNOR,
    GOVERNOR_SILENT,
    EXTENSIBLE,
];

/// Those that need one.
pub const THROUGH_REDIS: [&str; 2] = [OURS_REDIS, LIMITATION];

#[get("/")]
async fn bare() -> &'static str {
    "ok"
}

#[rate_limit(max = 1_000_000, window = "60s", key = "handler")]
#[get("/")]
async fn limited() -> &'static str {
    "ok"
}

#[rate_limit(max = 1_000_000, window = "60s", key = "minute")]
#[rate_limit(max = 1_000_000, window = "1h", key = "hour")]
#[get("/")]
async fn limited_twice() -> &'static str {
    "ok"
}

type Calls = Pin<Box<dyn Future<Output = Duration>>>;

/// An app; it lives on the runtime that made it.
pub struct Handler {
    call: Box<dyn Fn(Vec<Request>) -> Calls>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

impl Handler {
    fn new<S, B>(app: S) -> Self
    where
        S: Service<Request, Response = ServiceResponse<B>, Error = Error> + 'static,
        B: MessageBody + 'static,
    {
        let app = Rc::new(app);
        let call = move |requests: Vec<Request>| -> Calls {
            let app = Rc::clone(&app);
            Box::pin(async move {
                let start = Instant::now();
                for request in requests {
                    let response = call_service(&*app, request).await;
                    assert!(response.status().is_success(), "{}", response.status());
                }
                start.elapsed()
            })
        };
        Self { call: Box::new(call) }
    }

    /// Serves these requests, one after the other, and says how long that took.
    pub async fn serve(&self, requests: Vec<Request>) -> Duration {
        (self.call)(requests).await
    }
}

/// So many requests, from a hundred addresses in turn.
pub fn requests(number: u64) -> Vec<Request> {
    let from = |i: u64| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, (i % 100) as u8)), 40_000);
    (0..number).map(|i| TestRequest::get().uri("/").peer_addr(from(i)).to_request()).collect()
}

/// The app of this name. `url` is of a server, for those that need one.
///
/// # Panics
///
/// When there is none.
pub async fn make(name: &str, url: &str) -> Handler {
    let memory = || web::Data::new(RateLimiter::in_memory());
    let headers =
        |styles: &[HeaderStyle]| RateLimitConfig::builder().headers(styles.iter().copied()).build().unwrap();
    match name {
        BARE => Handler::new(init_service(App::new().service(bare)).await),
        OURS => Handler::new(init_service(App::new().app_data(memory()).service(limited)).await),
        OURS_OVERRIDES => {
            let overrides: Overrides =
                "[limit.minute.callers]\n\"address 192.0.2.1\" = { max = 5 }".parse().unwrap();
            let limiter = RateLimiter::builder(MemoryStore::new()).overrides(overrides).build();
            let app = App::new().app_data(web::Data::new(limiter));
            Handler::new(init_service(app.service(limited)).await)
        }
        OURS_SILENT => {
            let app = App::new().app_data(memory()).app_data(headers(&[]));
            Handler::new(init_service(app.service(limited)).await)
        }
        OURS_DRAFT => {
            let app = App::new().app_data(memory()).app_data(headers(&[HeaderStyle::Draft11]));
            Handler::new(init_service(app.service(limited)).await)
        }
        OURS_TWO => Handler::new(init_service(App::new().app_data(memory()).service(limited_twice)).await),
        OURS_MIDDLEWARE => {
            let app = App::new().app_data(memory()).wrap(RateLimitMiddleware::new(ours::builder().build()));
            Handler::new(init_service(app.service(bare)).await)
        }
        OURS_REDIS => {
            let app = App::new().app_data(web::Data::new(ours::connect(url)));
            Handler::new(init_service(app.service(limited)).await)
        }
        GOVERNOR => {
            let mut config = GovernorConfigBuilder::default();
            config.burst_size(MAX as u32).nanoseconds_per_request(WINDOW.as_nanos() as u64 / MAX);
            let config = config.use_headers().finish().unwrap();
            Handler::new(init_service(App::new().wrap(Governor::new(&config)).service(bare)).await)
        }
        GOVERNOR_SILENT => {
            let mut config = GovernorConfigBuilder::default();
            config.burst_size(MAX as u32).nanoseconds_per_request(WINDOW.as_nanos() as u64 / MAX);
            let config = config.finish().unwrap();
            Handler::new(init_service(App::new().wrap(Governor::new(&config)).service(bare)).await)
        }
        EXTENSIBLE => {
            let backend = InMemoryBackend::builder().with_gc_interval(None).build();
            let input = SimpleInputFunctionBuilder::new(WINDOW, MAX).peer_ip_key().build();
            let limit = Extensible::builder(backend, input).add_headers().build();
            Handler::new(init_service(App::new().wrap(limit).service(bare)).await)
        }
        LIMITATION => {
            let peer = |req: &actix_web::dev::ServiceRequest| Some(req.peer_addr()?.ip().to_string());
            let limiter =
                Limiter::builder(url).key_by(peer).limit(MAX as usize).period(WINDOW).build().unwrap();
            let app = App::new().app_data(web::Data::new(limiter)).wrap(Limitation::default());
            Handler::new(init_service(app.service(bare)).await)
        }
        _ => panic!("no app is named {name}"),
    }
}
