//! Tests of slots: every interleaving of small cases, random runs of several processes, and single events.

mod events;
mod exploration;
mod processes;
