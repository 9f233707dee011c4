//! The programs of `examples/`, run as processes of their own.
#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]

mod demo;
mod openapi;
mod readme;
