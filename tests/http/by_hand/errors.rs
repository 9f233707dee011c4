//! The error of a check by hand, in each kind of error that services return from their handlers.

use std::error::Error as StdError;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::test::init_service;
use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpRequest, HttpResponse, Responder, ResponseError, get};
use ratelimit_actix::{Check, Policy, Rejected, Rejection, admit, caller};
use tests::answer::{get, statuses};
use tests::store::{fresh, watched};
use tests::{send, service};

use super::{HOUR, LIMIT};

/// As services define it: with `thiserror`, the limit among other causes, and `anyhow`'s bounds for the rest.
#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error(transparent)]
    Limit(#[from] Rejected),
    #[error("no text")]
    Text(#[from] std::str::Utf8Error),
    #[error("failed")]
    Other(#[source] Box<dyn StdError + Send + Sync>),
}

impl ResponseError for AppError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Limit(rejected) => rejected.status_code(),
            Self::Text(_) => StatusCode::BAD_REQUEST,
            Self::Other(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        match self {
            Self::Limit(rejected) => rejected.error_response(),
            other => HttpResponse::build(other.status_code()).body(other.to_string()),
        }
    }
}

/// The limits of the handlers beside it, in an error type of the service.
#[get("/own")]
pub(super) async fn own(req: HttpRequest) -> Result<&'static str, AppError> {
    let [by, everyone] = [caller::ip(&req), caller::global(&req)];
    admit(&req, [Check::new(&LIMIT, &by), Check::new(&HOUR, &everyone)]).await?;
    Ok("ok")
}

static LINES: Policy = Policy::new("lines", 5, Duration::from_secs(60));

/// The cost is in the body, and other errors of the handler are of the same type.
async fn import(req: HttpRequest, body: Bytes) -> Result<String, AppError> {
    let text = std::str::from_utf8(&body)?;
    admit(&req, [Check::new(&LINES, "account").with_cost(text.lines().count() as u64)]).await?;
    let first = text.lines().next().ok_or_else(|| AppError::Other("no lines".into()))?;
    Ok(first.to_owned())
}

#[actix_web::test]
async fn an_error_type_of_a_service_takes_a_denial_and_passes_its_response_on() {
    let limiter = fresh();
    let app = App::new().app_data(limiter.clone()).route("/", web::post().to(import));
    let app = init_service(app).await;
    let sent = async |body: &'static [u8]| {
        send(&app, tests::answer::request(actix_web::http::Method::POST, "/").set_payload(body)).await
    };
    assert_eq!(sent(b"a\nb\nc").await.body, "a");
    assert_eq!(sent(b"\xff").await.status, 400);
    assert_eq!(sent(b"").await.status, 500);
    let denied = sent(b"a\nb\nc").await;
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/json")));
    assert!(denied.header("retry-after").is_some() && denied.body.contains("Rate limit exceeded."));
    assert_eq!(
        denied.quota().map(|(limit, left, _)| (limit, left)),
        Some((5, 2)),
        "as a whole or not at all"
    );
    let never = sent(b"1\n2\n3\n4\n5\n6").await;
    assert_eq!((never.status, never.header("retry-after")), (429, None));
    assert_eq!(sent(b"a\nb").await.status, 200);
    assert_eq!(limiter.peek(&LINES, "account").await.unwrap().remaining(), 0);
}

/// A function without types of Actix, as of a service layer: the box crosses threads.
async fn boxed(req: &HttpRequest) -> Result<(), Box<dyn StdError + Send + Sync>> {
    admit(req, [Check::new(&LINES, "account").with_cost(4)]).await?;
    Ok(())
}

#[get("/boxed")]
async fn unboxed(req: HttpRequest) -> HttpResponse {
    let Err(error) = boxed(&req).await else { return HttpResponse::Ok().finish() };
    match error.downcast_ref::<Rejected>() {
        Some(rejected) => rejected.error_response(),
        None => HttpResponse::InternalServerError().finish(),
    }
}

/// Actix answers a box with 500, whatever is in it.
#[get("/box")]
async fn handler_of_boxes(req: HttpRequest) -> Result<&'static str, Box<dyn StdError>> {
    admit(&req, [Check::new(&LINES, "account").with_cost(4)]).await?;
    Ok("ok")
}

#[actix_web::test]
async fn a_denial_fits_into_a_box() {
    let app = service!(fresh(), unboxed, handler_of_boxes);
    assert_eq!(statuses(&app, "/boxed", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/box", 1).await, [500]);
}

/// Decides by the facts of the rejection, as a resolver of GraphQL does.
#[get("/facts")]
async fn facts(req: HttpRequest) -> impl Responder {
    let Err(rejected) = admit(&req, [Check::new(&LINES, "account").with_cost(4)]).await else {
        return String::from("admitted");
    };
    let kind = match rejected.rejection() {
        Rejection::RateLimited(limited) => limited.tightest().unwrap().name().to_owned(),
        other => format!("{other}"),
    };
    format!("{rejected}: {kind}, {:?}", rejected.rejection().retry_after())
}

#[actix_web::test]
async fn the_error_has_the_facts_of_the_rejection() {
    let app = service!(fresh(), facts);
    let answers = [send(&app, get("/facts")).await.body, send(&app, get("/facts")).await.body];
    assert_eq!(answers[0], "admitted");
    assert!(answers[1].starts_with("rate limit exceeded: lines, Some("), "{}", answers[1]);
    let closed = Policy::builder("closed").on_error(ratelimit_actix::OnError::Deny).build();
    let (limiter, watch) = watched();
    watch.fail(true);
    let req = actix_web::test::TestRequest::default().app_data(Data::new(limiter)).to_http_request();
    let rejected = admit(&req, [Check::new(&closed, "account")]).await.unwrap_err();
    assert_eq!(rejected.rejection().retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(rejected.status_code(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn the_error_crosses_threads() {
    fn assert_error<T: StdError + ResponseError + Send + Sync + 'static>() {}
    assert_error::<Rejected>();
}
