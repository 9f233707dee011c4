//! Several processes with leases of the same counts: what the processes and the tests that start them have in
//! common, and the replay of all requests that they admitted.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{OnError, Policy, RateLimiter, RedisStore, Timestamp};

use crate::algorithms::leasable_shapes;
use crate::program::Program;

/// Callers under each policy.
pub const CALLERS: usize = 2;

/// The lease of every policy.
pub const LEASE: Duration = Duration::from_millis(100);

/// The policies: `max` units a second.
pub fn policies(max: u64) -> Vec<Policy> {
    let builder = Policy::builder("lessees").max(max).window(Duration::from_secs(1));
    leasable_shapes(builder.on_error(OnError::Deny).lease(LEASE), 10)
}

/// The name of a caller.
pub fn caller(number: usize) -> String {
    format!("caller {number}")
}

/// A limiter of one of `processes` processes.
pub fn limiter(url: &str, processes: u32) -> RateLimiter {
    // A long deadline, so that a busy machine fails no request.
    let store = RedisStore::builder(url).deadline(Duration::from_secs(10)).build().unwrap();
    RateLimiter::builder(store).instances(NonZeroU32::new(processes).unwrap()).build()
}

/// One decision about one unit, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Instant of the use, by the server's clock, in microseconds.
    pub at: u64,
    /// The policy and the caller.
    pub count: u16,
    pub verdict: Verdict,
}

/// What was decided, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Admitted by the server.
    Charged,
    /// Admitted by a lease.
    Leased,
    Denied,
}

impl Use {
    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.count.to_le_bytes());
        bytes[10] = self.verdict as u8;
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let at = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let verdict = [Verdict::Charged, Verdict::Leased, Verdict::Denied][usize::from(bytes[10])];
        Self { at, count: u16::from_le_bytes([bytes[8], bytes[9]]), verdict }
    }
}

/// The admitted requests in the files of all processes, without last entries that were cut off.
pub fn read_uses(folder: &Path) -> Vec<Use> {
    let mut uses = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let decisions = bytes.chunks_exact(16).map(Use::decode);
        uses.extend(decisions.filter(|one| one.verdict != Verdict::Denied));
    }
    uses.sort_unstable();
    uses
}

/// Uses that the pure rule would not have admitted, each tried at its own instant on a fresh state.
pub fn replay(policies: &[Policy], uses: &[Use]) -> Vec<Use> {
    let mut states: BTreeMap<u16, State> = BTreeMap::new();
    let mut over = Vec::new();
    for one in uses {
        let policy = &policies[usize::from(one.count) / CALLERS];
        let state = states.entry(one.count).or_insert_with(|| State::new(policy));
        let outcome = state.decide(policy, 1, Timestamp::from_micros(one.at), Operation::Check);
        if !outcome.is_allowed() {
            over.push(*one);
        }
    }
    over
}

/// Starts one of `processes` processes with leases. It writes its uses to files in `folder` whose names begin
/// with `name`; see `bin/lessee.rs`.
pub fn lessee(program: &str, url: &str, folder: &Path, name: &str, processes: u32, max: u64) -> Program {
    let file = folder.join(name).to_str().unwrap().to_owned();
    Program::start(program, &[url.to_owned(), file, processes.to_string(), max.to_string()])
}
