//! Concurrency limits: when a slot is taken and when it is free again, and what clients see.

mod ends;
mod gone;
mod groups;
mod middleware;
mod service;
