//! The requests that every picture shows, and the start of their time.

/// Milliseconds of the traffic: six windows of a minute.
pub(crate) const LENGTH: u64 = 360_000;

/// The start of a minute in 2026, in microseconds since the Unix epoch. Fixed windows begin with a minute.
pub(crate) const START: u64 = 1_790_000_040_000_000;

/// Parts of the traffic: from when, one request in how many milliseconds, and how many. Twelve requests
/// before the end of a minute and twelve after it, a steady rate of one in 4 s, a pause, and twenty in 5 s.
const PARTS: [(u64, u64, u64); 4] =
    [(46_000, 1_000, 12), (61_000, 1_000, 12), (122_000, 4_000, 30), (310_000, 250, 20)];

/// The instants of the requests, in milliseconds after [`START`].
pub(crate) fn requests() -> impl Iterator<Item = u64> {
    PARTS
        .into_iter()
        .flat_map(|(from, every, requests)| (0..requests).map(move |number| from + every * number))
}
