//! A request body that counts how often it is polled.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use actix_http::Request;
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::Stream;

/// The request with a body of one chunk, and a counter of how often the body was polled.
pub fn with_watched_body(request: Request) -> (Request, Arc<AtomicUsize>) {
    let polls = Arc::new(AtomicUsize::new(0));
    let body = WatchedBody { chunk: Some(Bytes::from_static(b"hello")), polls: Arc::clone(&polls) };
    let payload = Payload::Stream { payload: Box::pin(body) as Pin<Box<dyn Stream<Item = _>>> };
    let (request, _) = request.replace_payload(payload);
    (request, polls)
}

struct WatchedBody {
    chunk: Option<Bytes>,
    polls: Arc<AtomicUsize>,
}

impl Stream for WatchedBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(self.chunk.take().map(Ok))
    }
}
