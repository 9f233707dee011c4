//! Limits over HTTP: what `#[rate_limit]` and the middleware do to requests and responses, seen from a
//! client.
#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]

mod admin;
mod anchors;
mod by_hand;
mod charged_after;
mod charged_twice;
mod concurrency;
mod connections;
mod counting;
mod exempt;
mod headers;
mod identity;
mod layers;
mod limiters;
mod middleware;
mod overrides;
mod placement;
mod responses;
mod settle;
mod shadow;
mod signatures;
