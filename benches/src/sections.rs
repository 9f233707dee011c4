//! The sections of the report, each a question and how it is answered.

pub mod actix;
pub mod cluster;
pub mod compile;
pub mod growth;
pub mod handlers;
pub mod heap;
pub mod in_memory;
pub mod latency;
pub mod lease;
pub mod log;
pub mod micro;
pub mod network;
pub mod overload;
pub mod processes;
pub mod redis_memory;
pub mod server_cost;
pub mod slots;
pub mod throughput;

use std::path::Path;

use tokio::runtime::Runtime;

use crate::children::Programs;
use crate::drive::{Decider, Load, Yield, drive};
use crate::ours::{self, Ours};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Measured, Variant};
use crate::server::Server;
use crate::settings::Settings;
use crate::spread::{Spread, short};
use crate::table::Table;

/// What every section works with.
#[derive(Debug)]
pub struct Bench<'a> {
    /// How long to measure.
    pub settings: Settings,
    /// Where loads run: two threads, as many as the machines that the numbers are compared on have.
    pub runtime: Runtime,
    /// The programs beside this one.
    pub programs: Programs<'a>,
    /// A folder that stays, for what need not be made again in the next run.
    pub scratch: &'a Path,
}

/// Something that decides, put under a load for each measurement.
pub(crate) fn contender<'a>(
    bench: &'a Bench<'_>,
    servers: &'a [Server],
    name: &str,
    decider: impl Decider,
    load: impl Fn() -> Load + 'a,
) -> Variant<'a, Yield> {
    Variant::new(name, move || drive(&bench.runtime, &decider, servers, load()))
}

/// A rival at a single server.
pub(crate) fn rival(bench: &Bench<'_>, servers: &[Server], way: Way) -> Rival {
    rival_on(&bench.runtime, servers, way)
}

/// The same over a connection that lives on this runtime.
pub(crate) fn rival_on(runtime: &Runtime, servers: &[Server], way: Way) -> Rival {
    Rival::new(way, Wire::Single(runtime.block_on(servers[0].connect())), servers)
}

/// Our two-window counter at these servers.
pub(crate) fn two_windows(url: &str) -> Ours {
    Ours::new(&ours::connect(url), ours::builder().build())
}

/// What a variant costs, and how often that is what another costs.
pub(crate) fn compare(measured: &[Measured<f64>], base: &str, unit: &str) -> Table {
    let base = crate::rounds::find(measured, base);
    let mut table = Table::new(["what".to_owned(), unit.to_owned(), format!("× {}", base.name)]);
    for one in measured {
        let cost = Spread::of(one.rounds.clone());
        let ratio = Spread::ratio(&one.rounds, &base.rounds);
        table.row([one.name.clone(), short(cost.median), ratio.to_string()]);
    }
    table
}
