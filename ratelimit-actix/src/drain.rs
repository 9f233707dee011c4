//! What becomes of the body of a request that is refused.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::body::{self, BodyStream};
use actix_web::dev::Payload;
use actix_web::http::Version;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::rt::time::timeout;

/// Largest body, in bytes, that is read to be thrown away.
const MOST: usize = 16 * 1024;

/// Longest wait for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads a small body to its end, and drops it, so that the connection can be used for the next request.
///
/// Actix closes a connection on which a part of a body was not read. For a large one that is right, as it may never end.
/// For a small one, which is here already, another connection costs both sides more. Only a declared length is believed;
/// HTTP/2 can end a stream without the connection.
pub(crate) async fn drain(req: &HttpRequest, payload: Payload) {
    if req.version() > Version::HTTP_11 {
        return;
    }
    let length =
        req.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| (1..=MOST).contains(&length)) {
        // Whatever goes wrong, the request is refused all the same.
        let _ = timeout(PATIENCE, body::to_bytes_limited(BodyStream::new(payload), MOST)).await;
    }
}
