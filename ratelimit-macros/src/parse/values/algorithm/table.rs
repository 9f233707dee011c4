//! The table of all algorithms. `tests/core` compares it with the core, so this file uses nothing of this
//! crate.

/// One row of the table of algorithms. A new algorithm is a new row.
#[derive(Debug)]
pub(crate) struct Algorithm {
    /// The name in the attribute.
    pub(crate) name: &'static str,
    /// The variant of the facade's `Algorithm`.
    pub(crate) variant: &'static str,
    /// Other names for it, in lower case and without underscores.
    pub(crate) aliases: &'static [&'static str],
    /// Its arguments, besides those that every algorithm has.
    pub(crate) parameters: &'static [&'static str],
    /// Why `lease` is not for it.
    pub(crate) no_lease: Option<&'static str>,
}

pub(crate) static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "fixed_window",
        variant: "FixedWindow",
        aliases: &["fixed", "fixedwindowcounter"],
        parameters: &[],
        no_lease: None,
    },
    Algorithm {
        name: "sliding_window_counter",
        variant: "SlidingWindowCounter",
        aliases: &["slidingcounter", "counter"],
        parameters: &["sub_windows"],
        no_lease: None,
    },
    Algorithm {
        name: "sliding_window_log",
        variant: "SlidingWindowLog",
        aliases: &["slidinglog", "log"],
        parameters: &[],
        no_lease: Some("of which every unit counts from its own instant"),
    },
    Algorithm {
        name: "token_bucket",
        variant: "TokenBucket",
        aliases: &["bucket"],
        parameters: &["burst"],
        no_lease: Some("of which every unit refills at its own instant"),
    },
];

/// The algorithm of a limit that names none, in this crate and in the core.
pub(crate) static DEFAULT: &Algorithm = &ALGORITHMS[1];
