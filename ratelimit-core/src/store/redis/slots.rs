//! Slots of concurrency limits: what runs in this process, and what the server is told of it.
//!
//! A process keeps two numbers for each caller of which something runs, and each message to the server tells both: the slots
//! that it knows to be granted to it, and those of them that it has freed. Both only grow, so a message may come late, twice or
//! never, and the next one mends what went wrong. A message is a check of a cost: with a cost of 0 it only tells, which is
//! both renewal and release. `algorithm/concurrency.rs` is the server's side.
//!
//! * A slot begins where the reply is decoded, and travels with it. So it is freed if the request's future was dropped, or its
//!   deadline has passed.
//! * A caller is told of at the latest 3 s after its last message, at once on a new connection, and after a slot was freed. An
//!   entry on the server ends 10 s after its last message.
//! * Grants whose reply was lost are noticed by the server's own number in the next reply, and are freed ("heal").
//!
//! ```text
//! count     pure: the numbers of one caller, and every event
//! table     the callers of which something runs, and the slots that requests hold
//! call      slots in one call: what is asked for as it is written, and what its reply grants
//! ```

mod call;
mod count;
mod table;
#[cfg(test)]
mod tests;

pub(super) use self::call::CallSlots;
pub(super) use self::table::{Sender, SlotTable};
