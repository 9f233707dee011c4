//! Tests of slots: every interleaving of small cases, and single events.

mod events;
mod exploration;
