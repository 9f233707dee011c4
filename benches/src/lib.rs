//! What the benchmarks are made of: rounds in random order, servers of their own, peers, and a report.
//!
//! Only ratios of one run mean anything: the machine's other work disturbs all variants of a round alike.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a benchmark: a panic is the report"
)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and times become numbers of a report, far below what would be rounded"
)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

pub mod caller;
pub mod children;
pub mod clocks;
pub mod cluster;
pub mod cpu;
pub mod drive;
pub mod floor;
pub mod handlers;
pub mod http_load;
pub mod machine;
pub mod memory;
pub mod network;
pub mod ours;
pub mod plot;
pub mod progress;
pub mod random;
pub mod recorder;
pub mod report;
pub mod rivals;
pub mod rounds;
pub mod scheduling;
pub mod sections;
pub mod server;
pub mod service;
pub mod settings;
pub mod spread;
pub mod table;
pub mod timing;

use std::time::Duration;

/// Units per [`WINDOW`] of every limit that is measured, ours and peers' alike: no check is denied.
pub const MAX: u64 = 1_000_000;

/// The window of every limit that is measured.
pub const WINDOW: Duration = Duration::from_secs(60);
