//! Failure policies: what a limit does during an outage of the store.

use std::fmt;
use std::str::FromStr;

use super::unknown_value::UnknownValueError;

/// Failure policy: what a limit does during an outage of the store.
///
/// An outage is every error of the store, such as a lost connection, a missed deadline, or an open circuit breaker.
///
/// | variant | also called | a request during the outage | suits |
/// |---|---|---|---|
/// | [`Local`](Self::Local) | fallback | is decided by counts of this process | most limits |
/// | [`Deny`](Self::Deny) | fail closed | fails | limits that protect secrets or money, such as log-in attempts |
/// | [`Allow`](Self::Allow) | fail open | passes uncounted | limits whose absence does no harm |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{OnError, Policy};
///
/// static LOGIN: Policy =
///     Policy::builder("login").max(5).window(Duration::from_secs(900)).on_error(OnError::Deny).build();
///
/// assert_eq!("deny".parse(), Ok(LOGIN.on_error()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// Fallback: this process counts by itself, by the same algorithm, until the store is back.
    ///
    /// The store never learns these counts. So an outage admits at most `max` units more per caller and process, or a part
    /// of `max` if the [number of processes](crate::RateLimiterBuilder::instances) is known.
    #[default]
    Local,
    /// Fail closed: the check is an error, and `ratelimit-actix` responds with status 503. An outage of the store stops
    /// every request under this limit.
    Deny,
    /// Fail open: every request passes, uncounted. An outage of the store removes this limit.
    Allow,
}

impl OnError {
    /// All failure policies, in the order of their declaration.
    pub const ALL: &'static [Self] = &[Self::Local, Self::Deny, Self::Allow];

    /// Name of the failure policy, as `#[rate_limit(on_error = "…")]` and configuration spell it: `local`, `deny` or `allow`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Deny => "deny",
            Self::Allow => "allow",
        }
    }
}

impl fmt::Display for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OnError {
    type Err = UnknownValueError;

    /// Reads the name that [`as_str`](Self::as_str) has.
    fn from_str(text: &str) -> Result<Self, UnknownValueError> {
        let found = Self::ALL.iter().find(|on_error| on_error.as_str() == text).copied();
        found.ok_or_else(|| {
            UnknownValueError::new(
                "on_error",
                text,
                Self::ALL.iter().map(|on_error| on_error.as_str()).collect(),
            )
        })
    }
}

// A variant that is missing in `ALL` or out of order fails to compile here; one that is declared last, in the test below.
const _: () = {
    let mut i = 0;
    while i < OnError::ALL.len() {
        assert!(OnError::ALL[i] as usize == i, "`ALL` lists the variants in the order of their declaration");
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_policy_is_listed_and_read_by_its_name() {
        for on_error in OnError::ALL {
            // Add a new variant to `ALL` as well as here.
            let name = match on_error {
                OnError::Local => "local",
                OnError::Deny => "deny",
                OnError::Allow => "allow",
            };
            assert_eq!((name.parse(), on_error.to_string().as_str()), (Ok(*on_error), name));
        }
        let error = "Deny ".parse::<OnError>().unwrap_err();
        assert_eq!((error.setting(), error.suggestion()), ("on_error", Some("deny")));
        assert_eq!("closed".parse::<OnError>().unwrap_err().expected(), ["local", "deny", "allow"]);
    }
}
