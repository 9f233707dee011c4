//! Leases: units that this process charges ahead, so that it decides about a hot caller without a round trip.
//!
//! A lease is a check of `n` units, judged by the server after the requests of the same call. If it passes, its units are
//! charged, and this process admits requests with them: each as a whole, or the server decides it as a whole. No more requests pass
//! than without leases: each use, replayed at its own instant through the pure rule, passes. `docs/leases.md` has the guarantee, its
//! bounds under faults, and a picture.
//!
//! * A unit may be used until the end of the window or sub-window in which it was charged. The server's time is known from above
//!   only: its time of the answer, plus the local time since the call was *written*, plus a margin. The local clock counts a
//!   suspended machine.
//! * A lease is half of what was asked for in the last one to two intervals, and at most a quarter of what was left, divided
//!   by the number of processes.
//! * Before the server decides a request, what is held of its counts goes back, unless the server surely has enough.
//! * A lease belongs to one connection. A new connection, a redirect, or a clock that went on differently voids it.
//! * A denial is always the server's.
//!
//! ```text
//! lanes     the connections from which leases come
//! units     one lease: its units held, used, given back, expired; the upper bound of the server's time
//! size      what a caller asked for lately, and the size of the next lease
//! count     the leases of one count, and all events: take, give back, learn
//! ```
//!
//! These files but the first are pure: no clock, no lock, no connection. Around them:
//!
//! ```text
//! give_backs   units on their way back to the server
//! shard        the counts under one lock
//! table        all counts of which this process holds leases, or may soon
//! call         what one call asks for, and what its answer brings
//! ```

mod call;
mod count;
mod give_backs;
mod lanes;
mod shard;
mod size;
mod table;
mod units;

pub(super) use self::call::CallLeases;
pub(super) use self::table::{LeaseTarget, Leases};

#[cfg(test)]
mod tests;
