//! The requests that every picture shows, and the start of their time.

/// Milliseconds of the traffic: six windows of a minute.
pub(crate) const LENGTH: u64 = 360_000;

/// The start of a minute in 2026, in microseconds since the Unix epoch. Fixed windows begin with a minute.
pub(crate) const START: u64 = 1_790_000_040_000_000;

/// One part of the traffic: so many requests at equal distances.
struct Part {
    from: u64,
    every: u64,
    requests: u64,
}

/// Twelve requests before the end of a minute and twelve after it, a steady rate of one in 4 s, a pause, and twenty in 5 s.
const PARTS: [Part; 4] = [
    Part { from: 46_000, every: 1_000, requests: 12 },
    Part { from: 61_000, every: 1_000, requests: 12 },
    Part { from: 122_000, every: 4_000, requests: 30 },
    Part { from: 310_000, every: 250, requests: 20 },
];

/// The instants of the requests, in milliseconds after [`START`].
pub(crate) fn requests() -> impl Iterator<Item = u64> {
    PARTS.iter().flat_map(|part| (0..part.requests).map(|number| part.from + part.every * number))
}
