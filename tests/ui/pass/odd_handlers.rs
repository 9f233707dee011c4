//! Borrowed extractors, lifetimes with bounds, types and patterns that come through macros, and every kind of
//! answer.

use std::borrow::Cow;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::{
    App, Either, Error, FromRequest, HttpRequest, HttpResponse, Responder, error, get, route, routes, web,
};
use ratelimit_actix::rate_limit;

struct Text<'a>(Cow<'a, str>);

impl FromRequest for Text<'static> {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self(req.path().to_owned().into())))
    }
}

struct Settings(u64);

static SETTINGS: Settings = Settings(1);

impl FromRequest for &'static Settings {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(_: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(&SETTINGS))
    }
}

#[rate_limit]
#[get("/borrowed")]
async fn borrowed(text: Text<'_>, settings: &'static Settings) -> String {
    text.0.into_owned() + &settings.0.to_string()
}

#[rate_limit]
async fn lifetimes<'a, 'b: 'a, T>(text: Text<'a>, settings: &'b Settings, data: web::Data<T>) -> String
where
    'a: 'static,
    T: ToString + 'static,
{
    format!("{}{}{}", text.0, settings.0, data.to_string())
}

#[rate_limit]
#[routes]
#[get("/patterns")]
#[post("/patterns")]
pub(crate) async fn patterns(
    (request, _): (HttpRequest, HttpRequest),
    mut body: web::Bytes,
    Text(text): Text<'_>,
) -> Result<impl Responder, Error> {
    body.clear();
    if text.is_empty() { Err(error::ErrorBadRequest("empty")) } else { Ok(request.path().to_owned()) }
}

#[rate_limit]
#[route("/methods", method = "GET", method = "PURGE", name = "methods")]
async fn methods() -> Option<&'static str> {
    None
}

#[get("/either")]
#[rate_limit]
async fn either() -> Either<HttpResponse, Result<(&'static str, StatusCode), Error>> {
    Either::Right(Ok(("ok", StatusCode::OK)))
}

macro_rules! typed {
    ($name:ident, $request:ty, $input:pat) => {
        #[rate_limit(by = |request: $request| request.path().len(), max = |$input: $request| 3)]
        #[get("/typed")]
        async fn $name() -> &'static str {
            "ok"
        }
    };
}

typed!(by_reference, &HttpRequest, _);
typed!(by_value, HttpRequest, _request);

macro_rules! whole {
    ($name:ident, $path:literal, $($argument:tt)*) => {
        #[rate_limit($($argument)*)]
        #[get($path)]
        async fn $name() -> &'static str {
            "ok"
        }
    };
}

whole!(whole, "/whole/{id}", max = 3, key = "whole:{id}");

macro_rules! values {
    ($name:ident, $max:expr, $window:literal, $by:expr, $key:literal) => {
        #[rate_limit(max = $max, window = $window, by = $by, key = $key)]
        #[get("/values/{id}")]
        async fn $name() -> &'static str {
            "ok"
        }
    };
}

values!(of_an_address, 3, "60s", ip, "one");
values!(of_a_parameter, 3 + 4, "1h30m", (ip, path("id")), "two");
values!(of_a_closure, |_: HttpRequest| 3, "1d", |request: &HttpRequest| request.path().len(), "three");

pub fn main() {
    // In a function as well.
    #[rate_limit(by = |id: web::Path<u64>| *id)]
    #[get("/local/{id}")]
    async fn local(id: web::Path<u64>) -> String {
        id.to_string()
    }

    let _ = App::new()
        .service(borrowed)
        .service(patterns)
        .service(methods)
        .service(either)
        .service(by_reference)
        .service(by_value)
        .service(whole)
        .service(of_an_address)
        .service(of_a_parameter)
        .service(of_a_closure)
        .service(local)
        .route("/lifetimes", web::get().to(lifetimes::<u8>));
}
