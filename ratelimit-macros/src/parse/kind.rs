//! The two attributes with limits: of a rate, and of requests that run at a time.

use std::fmt;

/// Names in other libraries of the number of requests that run at a time.
const AT_A_TIME: [&str; 9] = [
    "concurrency",
    "concurrent",
    "maxconcurrency",
    "maxconcurrent",
    "inflight",
    "maxinflight",
    "parallel",
    "maxparallel",
    "slots",
];

/// Values of `algorithm` by which the other attribute is meant.
pub(crate) const NO_ALGORITHM: (&str, &[&str], &str) = (
    "concurrency",
    &["concurrent", "inflight", "semaphore"],
    "; a limit of what runs at a time is `#[concurrency_limit(max = 3)]`",
);

/// An attribute with limits. `Display` writes it as in messages: `#[rate_limit]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Units per window.
    Rate,
    /// Requests at a time.
    Concurrency,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Rate, Self::Concurrency];

    /// The name of the attribute.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate_limit",
            Self::Concurrency => "concurrency_limit",
        }
    }

    /// The attribute of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Arguments as examples in messages.
    pub(crate) fn example(self) -> &'static str {
        if self == Self::Rate { "max = 10, window = \"60s\"" } else { "max = 3" }
    }

    /// Whether `max` may be meant by this word, which is in lower case without underscores.
    pub(crate) fn has_max_named(self, word: &str) -> bool {
        self == Self::Concurrency && AT_A_TIME.contains(&word)
    }

    /// What a request does under two limits with one count, and what would separate them.
    pub(crate) fn twice(self) -> (&'static str, &'static str) {
        if self == Self::Rate {
            ("is charged twice", "another key or window")
        } else {
            ("holds two slots", "another key")
        }
    }

    /// The constructor of a limit with a policy by path.
    pub(crate) fn shared(self) -> &'static str {
        if self == Self::Rate { "shared" } else { "shared_concurrency" }
    }

    /// The algorithm, if there is no choice.
    pub(crate) fn only_algorithm(self) -> Option<&'static str> {
        (self == Self::Concurrency).then_some("Concurrency")
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#[{}]", self.name())
    }
}
