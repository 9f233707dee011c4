//! Limits over HTTP: what `#[rate_limit]` and the middleware do to requests and answers, seen from a client.

mod connections;
mod handlers;
mod headers;
mod identity;
mod middleware;
