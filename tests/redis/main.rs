//! The Redis store on a server that works: what is stored, what it costs, and what other programs may leave at its keys.

mod denial_cache;
mod log_bounds;
mod scripts;
mod tampered;
