//! A service whose handlers hold one slot and do what the test says.

use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::error::{self, InternalError};
use actix_web::web::{Bytes, Data, Path, ServiceConfig};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Result, get};
use futures_util::stream::{self, Stream};
use ratelimit_actix::{Policy, RateLimiter, concurrency_limit};
use tests::client::{self, Reply};
use tests::service::Service;
use tests::within;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Longest wait for a server: a limit for the test, not a measure.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Time in which a server would have noticed what it notices by itself.
pub(super) const SILENCE: Duration = Duration::from_millis(200);

pub(super) static ONE: Policy = Policy::concurrency("one", 1);

/// What a handler or a body does next.
pub(super) enum Step {
    Text,
    Fail,
    Panic,
}

/// The test's end of a handler or a body, which goes on when it gets a step, and ends when this is dropped.
pub(super) struct Lead(UnboundedSender<Step>);

impl Lead {
    /// Lets the handler or the body do this. Has no effect when it is gone.
    pub(super) fn go(&self, step: Step) {
        _ = self.0.send(step);
    }

    /// Whether the handler or the body is gone.
    pub(super) fn is_dropped(&self) -> bool {
        self.0.is_closed()
    }
}

type Queue = Arc<Mutex<VecDeque<UnboundedReceiver<Step>>>>;

/// The handlers that are to come.
#[derive(Clone, Default)]
pub(super) struct Led(Queue);

impl Led {
    /// Leads the next handler.
    pub(super) fn next(&self) -> Lead {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().unwrap().push_back(receiver);
        Lead(sender)
    }

    fn take(&self) -> UnboundedReceiver<Step> {
        self.0.lock().unwrap().pop_front().unwrap()
    }

    /// A body that is led.
    pub(super) fn body(&self) -> impl Stream<Item = io::Result<Bytes>> + use<> {
        let mut steps = self.take();
        stream::poll_fn(move |context| {
            steps.poll_recv(context).map(|step| {
                Some(match step? {
                    Step::Text => Ok(Bytes::from_static(b"text\n")),
                    Step::Fail => Err(io::Error::other("the body fails")),
                    Step::Panic => panic!("the body panics"),
                })
            })
        })
    }
}

#[concurrency_limit(policy = ONE, by = global)]
#[get("/stream")]
async fn stream_of(led: Data<Led>) -> HttpResponse {
    HttpResponse::Ok().streaming(led.body())
}

#[concurrency_limit(policy = ONE, by = global)]
#[get("/wait")]
async fn wait(led: Data<Led>) -> Result<&'static str> {
    match led.take().recv().await {
        Some(Step::Panic) => panic!("the handler panics"),
        Some(Step::Fail) => Err(error::ErrorBadGateway("no answer")),
        _ => Ok("waited"),
    }
}

/// An extractor that fails. The body of its response is led.
struct Refused;

impl FromRequest for Refused {
    type Error = InternalError<&'static str>;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let body = req.app_data::<Data<Led>>().unwrap().body();
        ready(Err(InternalError::from_response("refused", HttpResponse::BadRequest().streaming(body))))
    }
}

#[concurrency_limit(policy = ONE, by = global)]
#[get("/refused")]
async fn refused(_: Refused) -> &'static str {
    "not refused"
}

#[concurrency_limit(policy = ONE, by = global)]
#[get("/item/{id}")]
async fn item(id: Path<u64>) -> String {
    id.to_string()
}

/// A running service, over HTTP/1.1 and HTTP/2.
pub(super) struct Stage {
    pub(super) service: Service,
    pub(super) led: Led,
}

impl Stage {
    pub(super) fn start(limiter: &RateLimiter) -> Self {
        Self::with_half_closed(true, limiter)
    }

    pub(super) fn with_half_closed(allowed: bool, limiter: &RateLimiter) -> Self {
        let (limiter, led) = (Data::new(limiter.clone()), Led::default());
        let data = Data::new(led.clone());
        let service = Service::with_half_closed(allowed, move |app: &mut ServiceConfig| {
            app.app_data(limiter.clone()).app_data(data.clone());
            app.service(stream_of).service(wait).service(refused).service(item);
        });
        Self { service, led }
    }

    pub(super) fn get(&self, path: &str) -> Reply {
        client::get(self.service.address, path, &[])
    }

    /// Whether the slot is free now.
    pub(super) fn is_free(&self) -> bool {
        let status = self.get("/item/7").status;
        assert!([200, 429].contains(&status), "{status}");
        status == 200
    }

    /// Whether the slot becomes free.
    pub(super) fn becomes_free(&self) -> bool {
        within(PATIENCE, || self.is_free())
    }
}
