//! Tests of the pure part of leases: vectors worked out by hand, and properties of a simulation.

mod properties;
mod simulation;
mod vectors;
