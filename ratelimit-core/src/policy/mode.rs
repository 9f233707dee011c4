//! Modes: whether a limit denies requests, or only reports what it would deny.

use std::fmt;
use std::str::FromStr;

use super::unknown_value::UnknownValueError;

/// Whether a limit denies requests, or only reports what it would deny.
///
/// A shadow limit is judged and charged as if it were enforced: charged when the request fits and the enforced limits of its
/// group admit it, and not charged otherwise. It never denies a request and never changes what the enforced limits of its
/// group decide, also during an outage of the store. [`Outcome::would_deny`](crate::Outcome::would_deny), a metric and a log
/// line tell what it would have denied. So the effect of a limit is known before it is enforced, and its counts are warm then.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Mode, Policy};
///
/// static SEARCH: Policy =
///     Policy::builder("search").max(50).window(Duration::from_secs(60)).mode(Mode::Shadow).build();
///
/// assert_eq!("shadow".parse(), Ok(SEARCH.mode()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The limit denies requests that do not fit.
    #[default]
    Enforce,
    /// The limit admits every request, and reports what it would deny.
    Shadow,
}

impl Mode {
    /// All modes, in the order of their declaration.
    pub const ALL: &'static [Self] = &[Self::Enforce, Self::Shadow];

    /// Name of the mode, as `#[rate_limit(mode = "…")]` and configuration spell it: `enforce` or `shadow`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = UnknownValueError;

    /// Reads the name that [`as_str`](Self::as_str) has.
    fn from_str(text: &str) -> Result<Self, UnknownValueError> {
        let found = Self::ALL.iter().find(|mode| mode.as_str() == text).copied();
        found.ok_or_else(|| {
            UnknownValueError::new("mode", text, Self::ALL.iter().map(|mode| mode.as_str()).collect())
        })
    }
}

// A variant that is missing in `ALL` or out of order fails to compile here; one that is declared last, in the test below.
const _: () = {
    let mut i = 0;
    while i < Mode::ALL.len() {
        assert!(Mode::ALL[i] as usize == i, "`ALL` lists the variants in the order of their declaration");
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_listed_and_read_by_its_name() {
        for mode in Mode::ALL {
            // Add a new variant to `ALL` as well as here.
            let name = match mode {
                Mode::Enforce => "enforce",
                Mode::Shadow => "shadow",
            };
            assert_eq!((name.parse(), mode.to_string().as_str()), (Ok(*mode), name));
        }
        assert_eq!(Mode::default(), Mode::Enforce);
        let error = "Shadow ".parse::<Mode>().unwrap_err();
        assert_eq!((error.setting(), error.suggestion()), ("mode", Some("shadow")));
        assert_eq!("dry_run".parse::<Mode>().unwrap_err().expected(), ["enforce", "shadow"]);
    }
}
