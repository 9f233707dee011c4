//! The table of all algorithms. `tests/core` compares it with the core, so this file uses nothing of this crate.

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
    pub(crate) parameters: &'static [Parameter],
    pub(crate) leasing: Leasing,
}

/// An argument that only some algorithms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    SubWindows,
    Burst,
}

/// Whether `lease` is for an algorithm: the enum of the same name in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leasing {
    /// No: every unit counts from its own instant.
    Never,
    Returnable,
    /// Yes, but leased units evaporate and cannot be given back.
    Evaporating,
}

pub(crate) static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "fixed_window",
        variant: "FixedWindow",
        aliases: &["fixed", "fixedwindowcounter"],
        parameters: &[],
        leasing: Leasing::Returnable,
    },
    Algorithm {
        name: "sliding_window_counter",
        variant: "SlidingWindowCounter",
        aliases: &["slidingcounter", "counter"],
        parameters: &[Parameter::SubWindows],
        leasing: Leasing::Returnable,
    },
    Algorithm {
        name: "sliding_window_log",
        variant: "SlidingWindowLog",
        aliases: &["slidinglog", "log"],
        parameters: &[],
        leasing: Leasing::Never,
    },
    Algorithm {
        name: "token_bucket",
        variant: "TokenBucket",
        aliases: &["bucket"],
        parameters: &[Parameter::Burst],
        leasing: Leasing::Evaporating,
    },
];

/// The algorithm of a limit that names none, in this crate and in the core.
pub(crate) static DEFAULT: &Algorithm = &ALGORITHMS[1];
