//! What a limiter decides, whatever keeps its counts: examples, properties and the published contract, on
//! every store.

// The bounds, the algorithms and the calendars of the attribute: files of a crate that exports macros only.
mod algorithms;
#[allow(dead_code, unreachable_pub, reason = "the attribute uses what this test does not")]
#[path = "../../ratelimit-macros/src/parse/values/algorithm/table.rs"]
mod attribute_algorithms;
#[allow(dead_code, unreachable_pub, reason = "the attribute uses what this test does not")]
#[path = "../../ratelimit-macros/src/parse/values/bounds.rs"]
mod attribute_bounds;
#[allow(dead_code, unreachable_pub, reason = "the attribute uses what this test does not")]
#[path = "../../ratelimit-macros/src/parse/values/calendar/table.rs"]
mod attribute_calendar;
#[allow(dead_code, unreachable_pub, reason = "the attribute uses what this test does not")]
#[path = "../../ratelimit-macros/src/parse/values/window/grammar.rs"]
mod attribute_window;
mod bounds;
mod calendar;
mod concurrency;
mod conformance;
mod differential;
mod failure_policies;
mod forks;
mod operating;
mod oracle;
mod reservations;
mod shadow;
mod tables;
mod vectors;
mod waits;
