//! Requests to a service in the same process, and what it answers.

use actix_http::Request;
use actix_web::body::{self, MessageBody};
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::HeaderMap;
use actix_web::{Error, test::TestRequest};

/// The client that requests come from by default.
pub const CLIENT: &str = "192.0.2.1:40000";

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All fields.
    pub headers: HeaderMap,
    /// The body as text.
    pub body: String,
    /// What `Logger` would report as the cause, in its `Debug` form.
    pub error: Option<String>,
}

impl Answer {
    /// A field's value, if there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name);
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} occurs twice");
        Some(value.to_str().unwrap())
    }

    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, if they are there.
    pub fn quota(&self) -> Option<(u64, u64, u64)> {
        let number = |name| Some(self.header(name)?.parse().unwrap());
        let quota =
            (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), number("x-ratelimit-reset"));
        match quota {
            (Some(limit), Some(remaining), Some(reset)) => Some((limit, remaining, reset)),
            (None, None, None) => None,
            some => panic!("only some of the fields are there: {some:?}"),
        }
    }

    /// Everything in it as one text, to be searched.
    pub fn text(&self) -> String {
        format!("{:?}\n{}", self.headers, self.body)
    }
}

/// `GET path` by [`CLIENT`].
pub fn get(path: &str) -> TestRequest {
    by(CLIENT, path)
}

/// `GET path` by the client at `peer`, an address with a port.
pub fn by(peer: &str, path: &str) -> TestRequest {
    TestRequest::get().uri(path).peer_addr(peer.parse().unwrap())
}

/// A request without a body, by [`CLIENT`].
pub fn request(method: Method, path: &str) -> TestRequest {
    get(path).method(method)
}

/// Sends a request and reads the answer.
pub async fn send<S, B>(app: &S, request: TestRequest) -> Answer
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    send_raw(app, request.to_request()).await
}

/// Sends a request that was built in another way.
pub async fn send_raw<S, B>(app: &S, request: Request) -> Answer
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    let response = app.call(request).await.unwrap();
    let response = response.into_parts().1;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let error = response.error().map(|error| format!("{error:?}"));
    let Ok(body) = body::to_bytes(response.into_body()).await else {
        panic!("the body cannot be read");
    };
    let body = String::from_utf8(body.to_vec()).unwrap();
    Answer { status, headers, body, error }
}

/// The status codes of `count` requests for `path`, one after the other.
pub async fn statuses<S, B>(app: &S, path: &str, count: usize) -> Vec<u16>
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(send(app, get(path)).await.status);
    }
    statuses
}
