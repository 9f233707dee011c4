//! The algorithms: what each admits, and the one table of what the rest of the crate needs to know of it.

use super::named_values::named_values;

/// Algorithm by which units are counted.
///
/// # Choosing
///
/// | algorithm | state per caller | most units in one window | choose it for |
/// |---|---|---|---|
/// | [`FixedWindow`](Self::FixedWindow) | one count | 2 × `max`, around an edge | quotas by the clock hour or day; the cheapest |
/// | [`SlidingWindowCounter`](Self::SlidingWindowCounter) | sub-windows + 1 counts | `max` if requests are even; below 2 × `max` | the default: small state, smooth |
/// | [`SlidingWindowLog`](Self::SlidingWindowLog) | one entry per admitted request | `max`, always | a rule that must be true in every window, to the microsecond |
/// | [`TokenBucket`](Self::TokenBucket) | one instant | `burst + max` | a steady rate with room for bursts |
///
/// # Notation
///
/// `now` is the instant of the decision, `cost` the units of the request. A request passes if
/// `cost <= available`. `retry_after` is the smallest wait after which it passes if no other request is
/// charged meanwhile; it is absent if `cost` exceeds `max` (for a token bucket `burst`). `reset_after` is the
/// time until the full quota is available. Time is in integer microseconds, and every division is exact: the
/// same in Rust and in the scripts.
///
/// # Clocks that go back
///
/// Units that were counted stay counted, and no wait becomes longer than a full window (a full refill, for a
/// token bucket; one sub-window more, for the counter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// One count that starts anew at every multiple of the window since the Unix epoch.
    ///
    /// ```text
    /// available    max - count
    /// retry_after  start + window - now
    /// reset_after  start + window - now      (0 if nothing is counted)
    /// ```
    ///
    /// Complexity: one count of state, constant time.
    ///
    /// Worst case: 2 × `max` units within one window's length, `max` just before a window's end and `max`
    /// just after.
    ///
    /// Source: the plain quota that RFC 6585, section 4, has in mind for status 429.
    FixedWindow,

    /// Counts per sub-window; the oldest is weighted by its overlap with the sliding window.
    ///
    /// The window is divided into `S` [sub-windows](crate::PolicyBuilder::sub_windows), by default 1, of
    /// `length = window / S`. `whole` is the count of the current sub-window and the `S - 1` before it;
    /// `oldest` is the count of the one before those.
    ///
    /// ```text
    /// overlap      length - (now - start)
    /// used         whole + floor(oldest * overlap / length)
    /// available    max - used
    /// ```
    ///
    /// For the waits, let `whole(j)` and `oldest(j)` be the same counts `j` sub-windows later, without
    /// requests. With `allowance = max - cost`, the request passes in the first `j` with
    /// `whole(j) <= allowance`:
    ///
    /// ```text
    /// overlap(j)   floor(((allowance - whole(j) + 1) * length - 1) / oldest(j))
    /// retry_after  start + (j + 1) * length - overlap(j) - now
    /// reset_after  the same for the newest count > 0, with an allowance of 0
    /// ```
    ///
    /// Complexity: `S + 1` counts of state, time in proportion to `S`; at most 60.
    ///
    /// Worst case: below 2 × `max` units within one window's length, if all requests of the oldest
    /// sub-window came at its end. The excess is at most `oldest * (1 - overlap / length)`; more sub-windows
    /// make it smaller. The most that simulated traffic reached with the default was 178 of 100.
    ///
    /// Source: Cloudflare, "How we built rate limiting capable of scaling to millions of domains" (2017), for
    /// `S = 1`; 0.003 % of 400 million requests were decided wrongly there.
    #[default]
    SlidingWindowCounter,

    /// Every admitted unit with its time: exact in every window.
    ///
    /// ```text
    /// used         units of the entries with now - time <= window
    /// available    max - used
    /// retry_after  time of the entry with which used + cost - max units have expired, + window + 1 - now
    /// reset_after  time of the newest entry + window + 1 - now      (0 if there is none)
    /// ```
    ///
    /// The window is closed at both ends: an entry that is exactly one window old still counts, and no longer
    /// one microsecond later.
    ///
    /// Complexity: one entry per microsecond in which units were admitted, at most `max`, whatever their
    /// cost. Amortised constant time to charge; a denial searches the entries. In Redis a log is a tree. Most
    /// decisions read its first and its last node, which takes 4 to 10 µs of the server; others read one or
    /// two nodes of each level, which takes 20 to 60 µs for ten entries or a million. An entry of one unit
    /// takes 6 to 9 bytes of its memory.
    ///
    /// Worst case: `max` units in every window.
    ///
    /// Source: Figma, "An alternative approach to rate limiting" (Nikrad Mahdi, 2017), without its charge for
    /// denied requests.
    SlidingWindowLog,

    /// A bucket of `burst` tokens that refills at `max` per window.
    ///
    /// The state is one instant, `tat` (theoretical arrival time), at which the bucket is full if no request
    /// comes:
    ///
    /// ```text
    /// refill(n)    n * window / max
    /// available    floor((now + refill(burst) - tat) * max / window)
    /// charge       tat = max(tat, now) + refill(cost)
    /// retry_after  tat - refill(burst - cost) - now      rounded up
    /// reset_after  tat - now                             rounded up
    /// ```
    ///
    /// Instants are rationals, so no token is lost or gained by rounding over any length of time.
    ///
    /// Complexity: one instant of state, constant time.
    ///
    /// Worst case: `burst + t * max / window` units in any span of time `t`.
    ///
    /// Source: the generic cell rate algorithm, ITU-T I.371, appendix I.
    TokenBucket,

    /// A concurrency limit: at most `max` at a time, instead of so many per window. Not in
    /// [`ALL`](Self::ALL), which counts requests over time.
    ///
    /// A request takes a slot and holds it until its work ends; see
    /// [`Policy::concurrency`](crate::Policy::concurrency).
    ///
    /// ```text
    /// available    max - held
    /// retry_after  unknown: no process knows when a slot is freed
    /// ```
    ///
    /// Complexity: one count of state in memory; in Redis an entry of 25 bytes per process that holds slots
    /// of the caller.
    ///
    /// Worst case: `max`. Under faults, such as a process that stands still for longer than 10 s, up to `max`
    /// more until the old ones end.
    Concurrency,
}

/// The number besides `max` and the window that an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    None,
    SubWindows,
    /// Of a token bucket: requests can wait for it, another `max` or `burst` starts new counts, and the
    /// attribute tells counts apart by both (`validate/counts.rs`).
    Burst,
}

/// Facts about an algorithm beside its steps.
pub(crate) struct Spec {
    pub(crate) parameter: Parameter,
    /// Whether units may be charged ahead and used later: if they count until the end of a window, and not
    /// from an instant of their own.
    pub(crate) is_leasable: bool,
    /// First byte of a state as bytes, and the letter in its key.
    pub(crate) tag: u8,
    /// The number by which ARGV names the algorithm; its bit in a set of algorithms is `1 << (number - 1)`.
    #[cfg(feature = "redis")]
    pub(crate) number: u8,
    #[cfg(feature = "redis")]
    pub(crate) lua: LuaSource,
}

/// The Lua file of an algorithm.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum LuaSource {
    /// A step over a state that is a string.
    Step(&'static str),
    /// A step over a string with an entry for each process. The call has the entry of its process.
    Entries(&'static str),
    /// Functions about a state that is not a string.
    Log(&'static str),
}

named_values!(
    Algorithm, "algorithm", "All algorithms that count requests over time, in the order of their declaration.":
    FixedWindow = "fixed_window",
    SlidingWindowCounter = "sliding_window_counter",
    SlidingWindowLog = "sliding_window_log",
    TokenBucket = "token_bucket";
    apart: Concurrency = "concurrency"
);

impl Algorithm {
    /// The row of this algorithm.
    #[inline]
    pub(crate) const fn spec(self) -> &'static Spec {
        match self {
            Self::FixedWindow => &Spec {
                parameter: Parameter::None,
                is_leasable: true,
                tag: b'f',
                #[cfg(feature = "redis")]
                number: 1,
                #[cfg(feature = "redis")]
                lua: LuaSource::Step(include_str!("../../lua/fixed_window.lua")),
            },
            Self::SlidingWindowCounter => &Spec {
                parameter: Parameter::SubWindows,
                is_leasable: true,
                tag: b'c',
                #[cfg(feature = "redis")]
                number: 2,
                #[cfg(feature = "redis")]
                lua: LuaSource::Step(include_str!("../../lua/sliding_window_counter.lua")),
            },
            Self::SlidingWindowLog => &Spec {
                parameter: Parameter::None,
                is_leasable: false,
                tag: b'l',
                #[cfg(feature = "redis")]
                number: 3,
                #[cfg(feature = "redis")]
                lua: LuaSource::Log(include_str!("../../lua/sliding_window_log.lua")),
            },
            Self::TokenBucket => &Spec {
                parameter: Parameter::Burst,
                is_leasable: false,
                tag: b't',
                #[cfg(feature = "redis")]
                number: 4,
                #[cfg(feature = "redis")]
                lua: LuaSource::Step(include_str!("../../lua/token_bucket.lua")),
            },
            Self::Concurrency => &Spec {
                parameter: Parameter::None,
                is_leasable: false,
                tag: b'n',
                #[cfg(feature = "redis")]
                number: 5,
                #[cfg(feature = "redis")]
                lua: LuaSource::Entries(include_str!("../../lua/concurrency.lua")),
            },
        }
    }

    /// Whether a request holds what it takes until its work ends: a [concurrency limit](Self::Concurrency).
    #[inline]
    pub const fn holds_slots(self) -> bool {
        matches!(self, Self::Concurrency)
    }

    /// Whether [`PolicyBuilder::sub_windows`](crate::PolicyBuilder::sub_windows) applies.
    pub const fn has_sub_windows(self) -> bool {
        matches!(self.spec().parameter, Parameter::SubWindows)
    }

    /// Whether [`PolicyBuilder::burst`](crate::PolicyBuilder::burst) applies. Then a change of `max` or
    /// `burst` starts new counts; other algorithms keep theirs under any `max`.
    pub const fn has_burst(self) -> bool {
        matches!(self.spec().parameter, Parameter::Burst)
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;

    #[test]
    fn tags_and_numbers_are_told_apart() {
        for (i, algorithm) in Algorithm::EVERY.iter().enumerate() {
            assert_eq!(usize::from(algorithm.spec().number), i + 1);
            assert!(Algorithm::EVERY[..i].iter().all(|other| other.spec().tag != algorithm.spec().tag));
        }
    }
}
