//! The operator's scope: a page and JSON about every limit of this process.

mod look;
mod view;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use actix_web::dev::{AppService, HttpServiceFactory, Payload};
use actix_web::http::Method;
use actix_web::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::{FromRequest, HttpRequest, HttpResponse, rt, web};
use ratelimit_core::__private_0_1::PrivateLimiter as _;
use ratelimit_core::RateLimiter;
use ratelimit_core::stats::BAR_SECONDS;
use tokio::task::JoinHandle;
use tokio::time::{self, MissedTickBehavior};

use self::look::{Fields, LookError, LookView, Subject};

/// Makes the services of the operator's scope: a page and JSON about every limit.
///
/// Mount it in a scope of its own. `is_operator` is called for every request; if it returns `false`, the
/// response is an empty 404, as Actix answers where nothing is mounted. An application with a
/// `default_service` answers otherwise there. The scope has no limit of its own: a secret that `is_operator`
/// compares has to be too long to be guessed.
///
/// Under `NormalizePath::trim()` the page cannot be reached, since its path ends with a slash; use
/// `NormalizePath::new(TrailingSlash::MergeOnly)`.
///
/// | path | answer |
/// |---|---|
/// | `GET /` | the page: every limit, the store, the callers that were denied most; it needs scripts, which load the JSON below |
/// | `GET /limits.json` | every limit: place in the source, numbers in force, [counts](ratelimit_core::stats::Totals) since the start and of the `last_minute`, and the last ten minutes as [bars](ratelimit_core::stats::Bar) |
/// | `GET /overrides.json` | the overrides as a whole: their file, numbers of limits and rows, why newer contents are not in force; `null` without |
/// | `GET /store.json` | the state of the store: kind, readiness, and the fields of [`StoreStatus`](ratelimit_core::store::StoreStatus) |
/// | `GET /callers.json` | the 100 callers that were denied most |
/// | `GET /token` | the token that the next two want, as text |
/// | `POST /look.json` | what is left to one caller under one limit; charges nothing |
/// | `POST /reset.json` | forgets what is counted for one caller under one limit; logs a warning |
///
/// The last two take the fields of a form: `token` (or the header field `X-CSRF-Token`), `limit`, and
/// `caller` or `digest`. A caller is written as on the page: `192.0.2.1`, `text acct-42`, `number 7`,
/// `everyone`; a line for each part of a tuple; `partition alice` for a policy that the application checks
/// itself. An IPv6 address stands for its network by every
/// [prefix](crate::RateLimitConfigBuilder::ipv6_prefix) of the process; `ipv6_prefix` of a count in JSON
/// says by how many bits it counts, and is `null` if there is one network only. `was_counted` says whether
/// anything was counted; it is also `true` if a reset forgot what could not be read.
///
/// A reset reaches the counts by the numbers of the program and by those of overrides, in the store, so also
/// those of other processes. Of numbers that are made at run time it reaches those that this process has
/// decided by, at most 8 for each name.
///
/// The numbers are those of this process. With several processes, metrics have the sum; the page is for one
/// of them.
///
/// Nothing on the page comes from elsewhere. Its content security policy allows no inline script, and its
/// scripts write all values as text. Callers are shown as digests; see [`show_callers`](Admin::show_callers).
///
/// # Examples
///
/// ```
/// use actix_web::http::header::AUTHORIZATION;
/// use actix_web::{App, HttpRequest, web};
/// use ratelimit_actix::{RateLimiter, admin};
///
/// fn is_operator(req: &HttpRequest) -> bool {
///     // A real service checks a session or a certificate.
///     req.headers().get(AUTHORIZATION).is_some_and(|sent| sent == "Bearer correct-horse-battery-staple")
/// }
///
/// let limiter = RateLimiter::in_memory();
/// let app = App::new()
///     .app_data(web::Data::new(limiter.clone()))
///     .service(web::scope("/_limits").service(admin(limiter, |req: &HttpRequest| is_operator(req))));
/// ```
pub fn admin(limiter: RateLimiter, is_operator: impl Fn(&HttpRequest) -> bool + 'static) -> Admin {
    Admin { limiter, is_operator: Rc::new(is_operator), show_callers: false }
}

/// The services of the operator's scope, made by [`admin`].
#[must_use = "the services do nothing until a scope has them"]
pub struct Admin {
    limiter: RateLimiter,
    is_operator: Rc<dyn Fn(&HttpRequest) -> bool>,
    show_callers: bool,
}

impl Admin {
    /// Shows the callers that were denied most by their addresses, texts and numbers instead of digests only;
    /// by default `false`. Check before that operators may see them.
    pub fn show_callers(mut self, show_callers: bool) -> Self {
        self.show_callers = show_callers;
        self
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("show_callers", &self.show_callers).finish_non_exhaustive()
    }
}

impl HttpServiceFactory for Admin {
    fn register(self, config: &mut AppService) {
        let sampler = Sampler::start(&self.limiter);
        let state = Rc::new(Services { admin: self, _sampler: sampler });
        for (path, endpoint) in Endpoint::ALL {
            let state = Rc::clone(&state);
            let serve = move |req: HttpRequest, payload: web::Payload| {
                let state = Rc::clone(&state);
                async move { state.serve(endpoint, &req, payload.into_inner()).await }
            };
            web::resource(path).to(serve).register(config);
        }
    }
}

/// What the services of one worker share.
struct Services {
    admin: Admin,
    /// Ends with the services.
    _sampler: Sampler,
}

/// A path below the scope.
#[derive(Clone, Copy, Debug)]
enum Endpoint {
    /// The scope without a slash at its end.
    Scope,
    Page,
    Style,
    Script,
    LimitsScript,
    Limits,
    Overrides,
    Store,
    Callers,
    Token,
    Look,
    Reset,
}

impl Endpoint {
    const ALL: [(&str, Self); 12] = [
        ("", Self::Scope),
        ("/", Self::Page),
        ("/style.css", Self::Style),
        ("/page.js", Self::Script),
        ("/limits.js", Self::LimitsScript),
        ("/limits.json", Self::Limits),
        ("/overrides.json", Self::Overrides),
        ("/store.json", Self::Store),
        ("/callers.json", Self::Callers),
        ("/token", Self::Token),
        ("/look.json", Self::Look),
        ("/reset.json", Self::Reset),
    ];

    /// Whether the request names a caller, in a form.
    const fn takes_form(self) -> bool {
        matches!(self, Self::Look | Self::Reset)
    }
}

/// Fields of every response. Script, style and JSON are those of the scope, nothing is inline, and no form is
/// sent.
fn headers() -> [(HeaderName, &'static str); 5] {
    [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; \
         frame-ancestors 'none'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ]
}

impl Services {
    async fn serve(&self, endpoint: Endpoint, req: &HttpRequest, payload: Payload) -> HttpResponse {
        if !(self.admin.is_operator)(req) {
            return HttpResponse::NotFound().finish();
        }
        let is_allowed = match *req.method() {
            Method::GET | Method::HEAD => !endpoint.takes_form(),
            Method::POST => endpoint.takes_form(),
            _ => false,
        };
        let mut response = if is_allowed {
            self.answer(endpoint, req, payload).await
        } else {
            let allowed = if endpoint.takes_form() { "POST" } else { "GET, HEAD" };
            HttpResponse::MethodNotAllowed().insert_header((ALLOW, allowed)).finish()
        };
        for (name, value) in headers() {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn answer(&self, endpoint: Endpoint, req: &HttpRequest, payload: Payload) -> HttpResponse {
        let Admin { limiter, show_callers, .. } = &self.admin;
        match endpoint {
            Endpoint::Scope => to_page(req),
            Endpoint::Page => asset("text/html; charset=utf-8", include_str!("admin/page.html")),
            Endpoint::Style => asset("text/css; charset=utf-8", include_str!("admin/style.css")),
            Endpoint::Script => asset("text/javascript; charset=utf-8", include_str!("admin/page.js")),
            Endpoint::LimitsScript => {
                asset("text/javascript; charset=utf-8", include_str!("admin/limits.js"))
            }
            Endpoint::Limits => HttpResponse::Ok().json(view::limits(limiter, *show_callers)),
            Endpoint::Overrides => HttpResponse::Ok().json(limiter.overrides_status()),
            Endpoint::Store => HttpResponse::Ok().json(view::store(limiter)),
            Endpoint::Callers => HttpResponse::Ok().json(view::callers(limiter, *show_callers)),
            Endpoint::Token => asset("text/plain; charset=utf-8", token()),
            Endpoint::Look | Endpoint::Reset => match self.caller(endpoint, req, payload).await {
                Ok(view) => HttpResponse::Ok().json(view),
                Err(error) => json_error(&error),
            },
        }
    }

    /// Looks at the caller that the fields name, and resets it first if the endpoint says so.
    async fn caller(
        &self,
        endpoint: Endpoint,
        req: &HttpRequest,
        mut payload: Payload,
    ) -> Result<LookView, LookError> {
        let form = web::Form::<Fields>::from_request(req, &mut payload).await;
        let fields = form.map_err(|_| LookError::Form)?;
        if !is_same_origin(req, fields.token.as_deref()) {
            return Err(LookError::Token);
        }
        let limiter = &self.admin.limiter;
        let mut subject = Subject::find(req, &fields, limiter)?;
        let show_callers = self.admin.show_callers;
        if !matches!(endpoint, Endpoint::Reset) {
            return subject.look(limiter, show_callers).await;
        }
        let was_counted = subject.reset(limiter).await?;
        let view = subject.look(limiter, show_callers).await?;
        Ok(LookView { is_reset: true, was_counted, ..view })
    }
}

/// A redirect to the page, relative to the last part of the path, so that it also works behind a proxy that
/// changes paths.
fn to_page(req: &HttpRequest) -> HttpResponse {
    let last = req.path().rsplit('/').next().unwrap_or_default();
    HttpResponse::PermanentRedirect().insert_header((LOCATION, format!("./{last}/"))).finish()
}

fn asset(content_type: &'static str, text: &'static str) -> HttpResponse {
    HttpResponse::Ok().content_type(content_type).body(text)
}

fn json_error(error: &LookError) -> HttpResponse {
    HttpResponse::build(error.status()).json(BTreeMap::from([("error", error.to_string())]))
}

/// A task that ends when this is dropped. Each worker has one. The first that notices the end of a bar ends
/// it for all.
struct Sampler(JoinHandle<()>);

impl Sampler {
    fn start(limiter: &RateLimiter) -> Self {
        let limiter = limiter.clone();
        Self(rt::spawn(async move {
            // Several times per bar, so that one that comes late is in time.
            let mut ticks = time::interval(Duration::from_secs(BAR_SECONDS) / 5);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                limiter.stats().sample();
            }
        }))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Field of requests that carry the token and are not forms.
const FIELD: &str = "x-csrf-token";

/// The token of this process: 32 hexadecimal digits. Another site cannot read it from the page, so it cannot
/// send it.
fn token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| {
        // The standard library's own source of random keys for hash tables.
        let half = || RandomState::new().hash_one(0_u8);
        format!("{:016x}{:016x}", half(), half())
    })
}

/// Whether a request comes from a page of this scope: with the token, and not from another site.
fn is_same_origin(req: &HttpRequest, sent: Option<&str>) -> bool {
    let field = |name| req.headers().get(name).and_then(|value| value.to_str().ok());
    let is_own = field("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    is_own && sent.or_else(|| field(FIELD)).is_some_and(is_token)
}

/// Compares in a time that does not depend on where the texts differ.
fn is_token(sent: &str) -> bool {
    let (sent, token) = (sent.as_bytes(), token().as_bytes());
    let differences = sent.iter().zip(token).fold(0, |differences, (one, other)| differences | (one ^ other));
    sent.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_the_token_from_the_same_site_is_accepted() {
        let plain = TestRequest::default().to_http_request();
        assert!(is_same_origin(&plain, Some(token())));
        for wrong in ["", &token()[1..], &format!("{}0", token()), &"0".repeat(32)] {
            assert!(!is_same_origin(&plain, Some(wrong)), "{wrong}");
        }
        assert!(!is_same_origin(&plain, None));
        let with_field = TestRequest::default().insert_header((FIELD, token())).to_http_request();
        assert!(is_same_origin(&with_field, None));
        assert!(!is_same_origin(&with_field, Some("")), "the form's field counts");
        for (site, is_accepted) in [("same-origin", true), ("cross-site", false), ("same-site", false)] {
            let req = TestRequest::default().insert_header(("Sec-Fetch-Site", site)).to_http_request();
            assert_eq!(is_same_origin(&req, Some(token())), is_accepted, "{site}");
        }
    }
}
