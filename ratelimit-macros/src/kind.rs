//! The two attributes with limits: of a rate, and of what runs at a time.

use std::fmt;

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
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Rate => "max = 10, window = \"60s\"",
            Self::Concurrency => "max = 3",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#[{}]", self.name())
    }
}
