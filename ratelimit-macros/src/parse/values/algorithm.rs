//! The value of `algorithm`.

mod table;

pub(crate) use self::table::{ALGORITHMS, Algorithm, DEFAULT};
use crate::parse::kind::NO_ALGORITHM;
use crate::parse::values::choice::{Choice, Related, Spelling};

/// Names that mean several algorithms, or none of these.
const RELATED: [Related; 3] = [
    (
        "sliding_window",
        &["sliding", "rollingwindow"],
        "; did you mean \"sliding_window_counter\" (small state), or \"sliding_window_log\" (exact)?",
    ),
    (
        "leaky_bucket",
        &["gcra", "genericcellrate"],
        "; the same limit is \"token_bucket\", which paces calls with `burst = 1`",
    ),
    NO_ALGORITHM,
];

impl Choice for &'static Algorithm {
    const ARGUMENT: &'static str = "algorithm";
    const TYPE: &'static str = "Algorithm";
    const RELATED: &'static [Related] = &RELATED;
    #[cfg(test)]
    const DEFAULT: Self = DEFAULT;

    fn all() -> impl Iterator<Item = Self> {
        ALGORITHMS.iter()
    }

    fn spelling(self) -> Spelling {
        Spelling { name: self.name, variant: self.variant, aliases: self.aliases }
    }

    fn unknown(text: &str) -> String {
        format!("unknown algorithm {text:?}")
    }
}

impl Algorithm {
    /// Returns true if the algorithm has the argument `parameter`.
    pub(crate) fn has(&self, parameter: &str) -> bool {
        self.parameters.contains(&parameter)
    }
}

/// The algorithm of this name.
pub(crate) fn named(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}
