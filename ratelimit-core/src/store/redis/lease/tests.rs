//! Tests of leases: vectors worked out by hand, properties of a simulation, and calls with the bytes of their
//! answers.

mod calls;
mod properties;
mod simulation;
mod vectors;
