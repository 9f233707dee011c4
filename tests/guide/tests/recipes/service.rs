//! The set-up of a service: its limiter, policies and middleware, from its configuration.

/// What the environment says.
struct Env {
    redis_url: Option<String>,
    limits_file: Option<String>,
    trusted_proxies: String,
    rate_limit: u64,
}

// policies
use std::time::Duration;

use ratelimit_actix::{Policy, PolicyError};

static WRONG_KEYS: Policy = Policy::new("wrong-keys", 20, Duration::from_secs(600));

struct Limits {
    account: Policy,
}

impl Limits {
    /// An error for numbers out of their bounds, such as 0.
    fn new(env: &Env) -> Result<Self, PolicyError> {
        let account = Policy::builder("account").max(env.rate_limit).window(Duration::from_secs(60));
        Ok(Self { account: account.try_build()? })
    }
}
// end

// limiter
use std::error::Error;

use ratelimit_actix::{MemoryStore, Overrides, RateLimiter, RedisStore};

fn limiter(env: &Env, limits: &Limits) -> Result<RateLimiter, Box<dyn Error>> {
    let builder = match &env.redis_url {
        Some(url) => RateLimiter::builder(RedisStore::builder(url).build()?),
        None => RateLimiter::builder(MemoryStore::new()),
    };
    let overrides = match &env.limits_file {
        Some(file) => Overrides::from_file(file)?.watch(true),
        None => Overrides::new(),
    };
    Ok(builder.policies([&WRONG_KEYS, &limits.account]).overrides(overrides).try_build()?)
}
// end

// config
use ratelimit_actix::{ForwardedHeader, RateLimitConfig, RateLimitConfigError};

fn config(env: &Env) -> Result<RateLimitConfig, RateLimitConfigError> {
    let proxies = env.trusted_proxies.split_terminator(',');
    RateLimitConfig::builder().trusted_proxies(proxies, ForwardedHeader::XForwardedFor).build()
}
// end

// middleware
use actix_web::{HttpMessage, HttpRequest};
use ratelimit_actix::{Limit, RateLimitMiddleware};

fn account(req: &HttpRequest) -> Option<u64> {
    Some(req.extensions().get::<Account>()?.id)
}

fn around_app() -> RateLimitMiddleware {
    let wrong = Limit::new(&WRONG_KEYS).count(|status| status == 401).charge_after();
    RateLimitMiddleware::new(wrong).exclude_prefix("/health")
}

fn around_api(limits: &Limits) -> RateLimitMiddleware {
    RateLimitMiddleware::new(Limit::new(&limits.account).by(account))
}
// end

use std::fs;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, HttpResponse, test, web};

struct Account {
    id: u64,
}

async fn authenticate(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let key = req.headers().get("x-api-key").and_then(|key| key.to_str().ok()?.parse().ok());
    let Some(id) = key else {
        return Ok(req.into_response(HttpResponse::Unauthorized()).map_into_right_body());
    };
    req.extensions_mut().insert(Account { id });
    Ok(next.call(req).await?.map_into_left_body())
}

fn env() -> Env {
    Env { redis_url: None, limits_file: None, trusted_proxies: String::new(), rate_limit: 3 }
}

/// The status of a request with a key, from a client behind the proxy `10.0.0.1`.
macro_rules! status {
    ($app:expr, $client:expr, $key:expr) => {{
        let request = tests::answer::by("10.0.0.1:1", "/api").insert_header(("x-forwarded-for", $client));
        tests::send(&$app, request.insert_header(("x-api-key", $key))).await.status
    }};
}

#[actix_web::test]
async fn a_service_limits_accounts_and_wrong_keys_by_its_environment() {
    let server = tests::redis::server();
    for redis_url in [Some(None), server.as_ref().map(|server| Some(server.url()))].into_iter().flatten() {
        let env = Env { redis_url, trusted_proxies: "10.0.0.1, 192.0.2.0/24".to_owned(), ..env() };
        let limits = Limits::new(&env).unwrap();
        let api = web::scope("/api").wrap(around_api(&limits)).wrap(from_fn(authenticate));
        let app = App::new()
            .app_data(limiter(&env, &limits).unwrap())
            .app_data(config(&env).unwrap())
            .wrap(around_app())
            .service(api.route("", web::get().to(async || "ok")));
        let app = test::init_service(app).await;
        for (account, status) in [("1", 200), ("1", 200), ("1", 200), ("1", 429), ("2", 200)] {
            assert_eq!(status!(app, "203.0.113.1", account), status, "{account}");
        }
        for _ in 0..20 {
            assert_eq!(status!(app, "203.0.113.2", "guess"), 401);
        }
        assert_eq!(status!(app, "203.0.113.2", "2"), 429, "its address has guessed");
        assert_eq!(status!(app, "203.0.113.1", "2"), 200, "another client of the same proxy");
    }
}

#[actix_web::test]
async fn a_file_has_other_numbers_for_the_policies_of_a_service() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "[limit.account]\nmax = 1\n[limit.account.callers]\n\"number 7\" = { max = 2 }\n")
        .unwrap();
    let env = Env { limits_file: Some(file.path().to_str().unwrap().to_owned()), ..env() };
    let limits = Limits::new(&env).unwrap();
    let api = web::scope("/api").wrap(around_api(&limits)).wrap(from_fn(authenticate));
    let app = App::new().app_data(limiter(&env, &limits).unwrap());
    let app = test::init_service(app.service(api.route("", web::get().to(async || "ok")))).await;
    for (account, status) in [("1", 200), ("1", 429), ("7", 200), ("7", 200), ("7", 429)] {
        assert_eq!(status!(app, "", account), status, "{account}");
    }
}

/// What the page says of tests.
#[actix_web::test]
async fn a_mistake_in_the_environment_is_an_error() {
    let error = Limits::new(&Env { rate_limit: 0, ..env() }).err().unwrap().to_string();
    assert!(error.contains("max must be from 1 to"), "{error}");
    assert!(config(&Env { trusted_proxies: "proxy".to_owned(), ..env() }).is_err());
    let limits = Limits::new(&env()).unwrap();
    assert!(limiter(&Env { redis_url: Some("127.0.0.1".to_owned()), ..env() }, &limits).is_err());
    assert!(limiter(&Env { limits_file: Some("/no/such/file".to_owned()), ..env() }, &limits).is_err());
}
