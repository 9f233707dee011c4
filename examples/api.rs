//! A small API whose endpoints have different limits; `examples/README.md` has commands to try.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `REDIS_URL` | counts are shared through this Redis | counted in this process |
//! | `ADMIN_TOKEN` | operators with this token see the page at `/_limits/`; browsers enter it at `/operator` | no page |
//! | `ALGORITHM` | algorithm of `/api/public` | `sliding_window_counter` |
//! | `LIMITS_FILE` | file with other numbers for the limits, read again when it changes; see `limits.toml` | none |
//! | `BIND` | address to listen on | `127.0.0.1` |
//! | `PORT` | port to listen on; 0 for any free port | `8080` |
//! | `RUST_LOG` | log filter; `info` logs a line per request | `warn,ratelimit_core=info` |

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::str::FromStr;
use std::{env, fmt};

use actix_web::http::header::{AUTHORIZATION, COOKIE, LOCATION, SET_COOKIE};
use actix_web::middleware::Logger;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, Responder, Route, get, post, web};
use ratelimit_actix::{
    Algorithm, Caller, IntoCaller, MemoryStore, Overrides, RateLimiter, RateLimiterBuilder, admin, caller,
    rate_limit,
};

// ---- Endpoints --------------------------------------------------------------------------------------------

/// 100 requests per 60 s for each client address, the defaults.
#[rate_limit]
#[get("/api/data")]
async fn data() -> impl Responder {
    "data\n"
}

#[rate_limit(max = 10, window = "60s", name = "expensive_operation")]
#[post("/api/expensive-operation")]
async fn expensive_operation() -> impl Responder {
    "result\n"
}

/// All handlers with the key "user-api" share these 50 requests.
#[rate_limit(max = 50, window = "60s", key = "user-api")]
#[get("/api/user/{user_id}")]
async fn user(user_id: web::Path<u64>) -> impl Responder {
    format!("user {user_id}\n")
}

/// A limit low enough that passwords cannot be guessed. It fails closed. The body of a denied request is not
/// read.
#[rate_limit(max = 5, window = "60s", on_error = "deny")]
#[post("/api/login")]
async fn login() -> impl Responder {
    "welcome\n"
}

#[rate_limit(max = 10, window = "60s", by = account, name = "protected")]
#[get("/api/protected")]
async fn protected() -> impl Responder {
    "protected data\n"
}

/// The accounts of `/api/protected`, by their API keys. A real service queries its database.
const ACCOUNTS: [(&str, u64); 2] = [("alice-key", 1), ("bob-key", 2)];

/// The caller of a request to `/api/protected`.
///
/// Only a known key identifies an account. An unverified header must not choose the count: a client that
/// sends a new key with every request would never be limited. Requests with unknown keys count by their
/// address.
fn account(req: &HttpRequest) -> Caller {
    let sent = req.headers().get("X-API-Key");
    let known = ACCOUNTS.iter().find(|(key, _)| sent.is_some_and(|sent| sent == key));
    match known {
        Some((_, account)) => account.into_caller(),
        None => caller::ip(req),
    }
}

/// Not limited.
#[get("/api/status")]
async fn status() -> impl Responder {
    "up\n"
}

/// The handler of `/api/public` with this algorithm, or `None` for one that later versions add.
///
/// An attribute is fixed at compile time, but configuration can choose which handler is mounted.
fn public(algorithm: Algorithm) -> Option<fn() -> Route> {
    #[rate_limit(max = 10, window = "60s", algorithm = "fixed_window")]
    async fn fixed_window() -> impl Responder {
        "public data\n"
    }

    #[rate_limit(max = 10, window = "60s", algorithm = "sliding_window_counter")]
    async fn sliding_window_counter() -> impl Responder {
        "public data\n"
    }

    #[rate_limit(max = 10, window = "60s", algorithm = "sliding_window_log")]
    async fn sliding_window_log() -> impl Responder {
        "public data\n"
    }

    #[rate_limit(max = 10, window = "60s", algorithm = "token_bucket")]
    async fn token_bucket() -> impl Responder {
        "public data\n"
    }

    Some(match algorithm {
        Algorithm::FixedWindow => || web::get().to(fixed_window),
        Algorithm::SlidingWindowCounter => || web::get().to(sliding_window_counter),
        Algorithm::SlidingWindowLog => || web::get().to(sliding_window_log),
        Algorithm::TokenBucket => || web::get().to(token_bucket),
        _ => return None,
    })
}

// ---- Operators --------------------------------------------------------------------------------------------

/// Whether a request has the token, in `Authorization: Bearer TOKEN` or in the cookie of the form below. A
/// real service asks its sessions.
fn is_operator(req: &HttpRequest, token: &str) -> bool {
    let bearer =
        req.headers().get(AUTHORIZATION).and_then(|sent| sent.to_str().ok()?.strip_prefix("Bearer "));
    let cookies = req.headers().get_all(COOKIE).filter_map(|line| line.to_str().ok());
    let mut cookies =
        cookies.flat_map(|line| line.split("; ")).filter_map(|cookie| cookie.strip_prefix("operator="));
    bearer == Some(token) || cookies.any(|sent| sent == token)
}

#[derive(Clone)]
struct AdminToken(String);

/// Where a browser gets the cookie.
#[get("/operator")]
async fn log_in_form() -> impl Responder {
    let form = "<!DOCTYPE html><html lang=en><title>Operator</title><form method=post>\
                <label>Token <input type=password name=token autofocus></label> <button>Log in</button></form>";
    web::Html::new(form)
}

/// Few attempts. The page takes the token as well, without a limit, so it has to be long.
#[rate_limit(max = 5, window = "60s", on_error = "deny")]
#[post("/operator")]
async fn log_in(sent: web::Form<Vec<(String, String)>>, token: web::Data<AdminToken>) -> impl Responder {
    if !sent.iter().any(|(name, value)| name == "token" && *value == token.0) {
        return HttpResponse::NotFound().finish();
    }
    let cookie = format!("operator={}; Path=/_limits; HttpOnly; SameSite=Strict", token.0);
    HttpResponse::SeeOther()
        .insert_header((SET_COOKIE, cookie))
        .insert_header((LOCATION, "/_limits/"))
        .finish()
}

/// Mounts the page, if there is a token.
fn operators(config: &mut web::ServiceConfig, limiter: &RateLimiter, token: Option<&AdminToken>) {
    if let Some(AdminToken(token)) = token.cloned() {
        let services = admin(limiter.clone(), {
            let token = token.clone();
            move |req: &HttpRequest| is_operator(req, &token)
        });
        config
            .app_data(web::Data::new(AdminToken(token)))
            .service((log_in_form, log_in))
            .service(web::scope("/_limits").service(services));
    }
}

/// The default log filter: warnings, and the end of an outage of the store.
const LOG: &str = "warn,ratelimit_core=info";

// ---- Service ----------------------------------------------------------------------------------------------

#[actix_web::main]
async fn main() -> ExitCode {
    env_logger::init_from_env(env_logger::Env::default().default_filter_or(LOG));
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let limiter = limiter()?;
    let public = algorithm()?;
    let address = address()?;
    let token = admin_token()?;
    let store = limiter.store_kind();

    // Create the limiter once, outside the closure, which runs once per worker.
    let server = HttpServer::new(move || {
        App::new()
            .wrap(Logger::default())
            .app_data(web::Data::new(limiter.clone()))
            .route("/api/public", public())
            .service((data, expensive_operation, user, login, protected, status))
            .configure(|config| operators(config, &limiter, token.as_ref()))
    });
    let server = server.bind(address).map_err(|source| Fault {
        what: format!("cannot listen on {address}"),
        source: Some(source.into()),
    })?;
    for address in server.addrs() {
        introduce(address, store);
    }
    Ok(server.run().await?)
}

fn introduce(address: SocketAddr, store: &str) {
    println!(
        "\
Listening on http://{address}, store: {store}. Try:

  curl http://{address}/api/public
  for i in $(seq 11); do curl -s -o /dev/null -w '%{{http_code}} ' http://{address}/api/public; done; echo
  curl -i http://{address}/api/public
  curl -H 'X-API-Key: alice-key' http://{address}/api/protected
  curl -X POST http://{address}/api/login
  curl http://{address}/api/user/7
  curl http://{address}/api/status
"
    );
}

// ---- Settings ---------------------------------------------------------------------------------------------

fn limiter() -> Result<RateLimiter, Fault> {
    let builder = match variable("REDIS_URL")? {
        None => RateLimiter::builder(MemoryStore::new()),
        Some(url) => shared(&url)
            .map_err(|source| Fault { what: "REDIS_URL cannot be used".into(), source: Some(source) })?,
    };
    let Some(file) = variable("LIMITS_FILE")? else { return Ok(builder.build()) };
    let overrides = Overrides::from_file(file);
    let limiter = overrides.and_then(|overrides| builder.overrides(overrides.watch(true)).try_build());
    limiter.map_err(|source| Fault { what: "LIMITS_FILE".into(), source: Some(source.into()) })
}

#[cfg(feature = "redis")]
fn shared(url: &str) -> Result<RateLimiterBuilder, Box<dyn Error>> {
    Ok(RateLimiter::builder(ratelimit_actix::RedisStore::builder(url).build()?))
}

#[cfg(not(feature = "redis"))]
fn shared(_: &str) -> Result<RateLimiterBuilder, Box<dyn Error>> {
    Err("this service was built without its feature `redis`".into())
}

fn algorithm() -> Result<fn() -> Route, Fault> {
    let served =
        variable("ALGORITHM")?.map_or(Ok(Algorithm::SlidingWindowCounter), |name| name.parse()).map(public);
    served.ok().flatten().ok_or_else(|| {
        let served = Algorithm::ALL.iter().filter(|algorithm| public(**algorithm).is_some());
        let names: Vec<&str> = served.map(|algorithm| algorithm.as_str()).collect();
        Fault { what: format!("ALGORITHM must be one of {}", names.join(", ")), source: None }
    })
}

fn admin_token() -> Result<Option<AdminToken>, Fault> {
    let Some(token) = variable("ADMIN_TOKEN")? else { return Ok(None) };
    let is_sendable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    // The page has no limit of its own: nothing but the length keeps the token from being guessed there.
    if token.len() < 16 || !token.bytes().all(is_sendable) {
        let what = "ADMIN_TOKEN must be at least 16 letters, digits, `-` and `_`".to_owned();
        return Err(Fault { what, source: None });
    }
    Ok(Some(AdminToken(token)))
}

fn address() -> Result<SocketAddr, Fault> {
    let host = parsed("BIND", "an IP address")?.unwrap_or(IpAddr::from(Ipv4Addr::LOCALHOST));
    let port = parsed("PORT", "a number from 0 to 65535")?.unwrap_or(8080);
    Ok(SocketAddr::new(host, port))
}

fn parsed<T>(name: &str, expected: &str) -> Result<Option<T>, Fault>
where
    T: FromStr<Err: Error + 'static>,
{
    let Some(value) = variable(name)? else {
        return Ok(None);
    };
    match value.parse::<T>() {
        Ok(value) => Ok(Some(value)),
        Err(source) => Err(Fault { what: format!("{name} must be {expected}"), source: Some(source.into()) }),
    }
}

/// Reads a variable, if it is set. Errors do not repeat its value, because a URL may hold a password.
fn variable(name: &str) -> Result<Option<String>, Fault> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Fault { what: format!("{name} is not valid Unicode"), source: None })
        }
    }
}

/// The reason why the service cannot start.
#[derive(Debug)]
struct Fault {
    what: String,
    source: Option<Box<dyn Error>>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref()
    }
}
