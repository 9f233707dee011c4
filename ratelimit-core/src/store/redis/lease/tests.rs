//! Tests of the pure part of leases: vectors worked out by hand, properties of a simulation, and the run of a picture.

mod picture;
mod properties;
mod simulation;
mod vectors;
