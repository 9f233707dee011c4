//! Middleware with concurrency limits: the body of a service holds the slot, and so does its error.

use std::io::Write;
use std::net::TcpStream;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpResponse, error};
use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, RateLimiter, caller};
use tests::answer::get as from_client;
use tests::service::Service as Running;
use tests::store::fresh;
use tests::{redis, within};

use super::ends::read_to;
use super::service::{Led, PATIENCE, Step};

static ONE: Policy = Policy::concurrency("scope", 1);
async fn fails(_: ServiceRequest, _: Next<impl MessageBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    Err(error::ErrorForbidden("not here"))
}

fn holds_a_slot(limiter: &RateLimiter) {
    let (limiter, handlers) = (Data::new(limiter.clone()), Led::default());
    let data = Data::new(handlers.clone());
    let service = Running::start(move |app| {
        let stream = |handlers: Data<Led>| async move { HttpResponse::Ok().streaming(handlers.body()) };
        app.app_data(limiter.clone()).app_data(data.clone()).service(
            web::scope("/scope")
                .wrap(RateLimitMiddleware::new(Limit::new(&ONE).by(caller::global)))
                .route("/stream", web::get().to(stream))
                .route("/quick", web::get().to(async || "quick"))
                .service(web::resource("/fails").wrap(from_fn(fails)).to(async || "never")),
        );
    });
    let status = |path: &str| tests::client::get(service.address, path, &[]).status;
    let is_free = || status("/scope/quick") == 200;
    assert!(is_free());
    let lead = handlers.next();
    let mut client = TcpStream::connect(service.address).unwrap();
    client.write_all(b"GET /scope/stream HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    lead.go(Step::Text);
    read_to(&mut client, "text\n\r\n");
    assert!(!is_free(), "held while the body is sent");
    drop(lead);
    read_to(&mut client, "0\r\n\r\n");
    assert!(within(PATIENCE, is_free));
    for _ in 0..3 {
        assert!(within(PATIENCE, || status("/scope/fails") == 403), "an error of a service frees its slot");
    }
    assert!(within(PATIENCE, is_free));
}

#[test]
fn the_body_of_a_service_holds_the_slot_of_middleware_in_memory() {
    holds_a_slot(&fresh());
}

#[test]
fn the_body_of_a_service_holds_the_slot_of_middleware_in_redis() {
    let Some(server) = redis::server() else { return };
    holds_a_slot(&server.limiter());
}

#[actix_web::test]
async fn an_error_of_a_service_holds_the_slot_until_it_is_sent() {
    let limited = RateLimitMiddleware::new(Limit::new(&ONE).by(caller::global));
    let app = App::new().app_data(fresh()).service(
        web::scope("/scope")
            .wrap(limited)
            .route("", web::get().to(async || "ok"))
            .service(web::resource("/fails").wrap(from_fn(fails)).to(async || "never")),
    );
    let app = actix_web::test::init_service(app).await;
    let status = async |path: &str| app.call(from_client(path).to_request()).await.unwrap().status();
    let Err(failed) = app.call(from_client("/scope/fails").to_request()).await else { panic!("no error") };
    assert_eq!(status("/scope").await, StatusCode::TOO_MANY_REQUESTS);
    let response = failed.error_response();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert_eq!(status("/scope").await, StatusCode::TOO_MANY_REQUESTS);
    drop(response);
    assert_eq!(status("/scope").await, StatusCode::OK);
}
