//! What a limiter decides, whatever keeps its counts: examples, properties and the published contract, on every store.

mod concurrency;
mod conformance;
mod differential;
mod failure_policies;
mod oracle;
mod stories;
mod vectors;
