//! Every argument of `#[rate_limit]` and every place where it may stand, seen from a client.

#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]
#![allow(clippy::unused_async, reason = "handlers are async, and these have nothing to wait for")]

mod blocks;
mod callers;
mod choices;
mod counting;
mod extractions;
mod guesses;
mod listing;
mod policy;
mod served;
mod table;
