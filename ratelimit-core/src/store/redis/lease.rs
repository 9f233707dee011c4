//! Leases: units that this process charges ahead, so that it decides about a hot caller without a round trip.
//!
//! A lease is a check of `n` units, judged by the server after the requests of the same call. If it passes, its units are
//! charged, and this process admits requests with them. No more requests pass than without leases: each use, replayed at its
//! own instant through the pure rule, passes. `docs/leases.md` has the guarantee, its bounds under faults, and a picture.
//!
//! * A unit of a window may be used until the end of the window or sub-window in which it was charged, a unit of a token
//!   bucket until the bucket would have refilled it. The server's time is known from above only: its time of the answer,
//!   plus the local time since the call was *written*, plus a margin. The local clock counts a suspended machine.
//! * A lease is half of what was asked for in the last one to two intervals, and at most a quarter of what was left, divided
//!   by the number of processes.
//! * A lease belongs to one connection. A new connection, a redirect, or a clock that went on differently voids it.
//! * A denial is always the server's.
//!
//! ```text
//! heat      what a caller asked for lately
//! units     one lease: its units held, reserved, used, given back, expired; the upper bound of the server's time
//! size      size of the next lease
//! count     the leases of one count, and all events
//! ```
//!
//! These files are pure: no clock, no lock, no connection. Around them:
//!
//! ```text
//! give_backs   units on their way back to the server
//! table        all counts of which this process holds leases, or may soon
//! reserved     a request that takes held units and asks the server for the rest
//! call         what one call asks for, and what its answer brings
//! ```

mod call;
mod count;
mod count_name;
mod give_backs;
mod heat;
mod reserved;
mod size;
mod table;
mod units;

pub(super) use self::call::CallLeases;
pub(super) use self::count_name::LeaseTarget;
pub(super) use self::table::Leases;

#[cfg(test)]
mod tests;
