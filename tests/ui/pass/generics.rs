//! Type, const and lifetime parameters, where clauses, `impl Responder`, `Result`, and recursion.

use std::marker::PhantomData;

use actix_web::{App, HttpRequest, Responder, error::ErrorImATeapot, web};
use ratelimit_actix::rate_limit;
use serde::de::DeserializeOwned;

#[rate_limit(max = 10, window = "60s")]
async fn echo<T, const N: usize>(body: web::Json<T>) -> impl Responder
where
    T: ToString + DeserializeOwned + 'static,
{
    body.to_string().repeat(N)
}

#[rate_limit]
async fn stateful<T: 'static>(
    _state: web::Data<PhantomData<T>>,
    r#type: HttpRequest,
) -> Result<String, actix_web::Error> {
    if r#type.path() == "/tea" { Err(ErrorImATeapot("short and stout")) } else { Ok(String::new()) }
}

#[rate_limit]
async fn responder_or_error(id: web::Data<&'static str>) -> Result<impl Responder, actix_web::Error> {
    Ok(*id.into_inner())
}

#[rate_limit]
async fn r#move(depth: web::Path<u64>) -> String {
    let depth = depth.into_inner();
    if depth == 0 { String::new() } else { Box::pin(r#move((depth - 1).into())).await }
}

pub fn main() {
    let _ = App::new()
        .route("/echo", web::post().to(echo::<String, 3>))
        .route("/state", web::post().to(stateful::<u8>))
        .route("/move", web::get().to(r#move));
    let _ = responder_or_error;
}
