//! Servers that die, hang, move or misbehave, and how long each decision waits then. All of it in real time.

mod at_most_once;
mod causes;
mod charged_after;
mod deadline;
mod failover;
mod faults;
mod lanes;
mod leases;
mod panics;
mod redirects;
mod replaced;
mod settlements;
mod sharded;
mod shifted;
mod slots;
mod stalls;
mod supervisor;
mod topology;
mod turns;
