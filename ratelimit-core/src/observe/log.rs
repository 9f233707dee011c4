//! Lines of the log: the address that explains one, and which are told once in a process, or at most once a second.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};
use crate::noted::Noted;

/// The page of all messages. The crates have one version.
const MESSAGES: &str = concat!(
    "https://docs.rs/ratelimit-actix/",
    env!("CARGO_PKG_VERSION"),
    "/ratelimit_actix/guide/messages/index.html"
);

/// The field `help` of a line: the address of the section that has its cause, and what to do.
pub fn help(section: &'static str) -> String {
    format!("{MESSAGES}#{section}")
}

/// Whether the line of a section is to be told of `subject`: the first time in this process.
#[cold]
pub fn is_first(section: &'static str, subject: impl Hash) -> bool {
    static LOGGED: LazyLock<Noted> = LazyLock::new(Noted::default);
    let mut hasher = DefaultHasher::new();
    (section, subject).hash(&mut hasher);
    LOGGED.note(hasher.finish())
}

/// Minimum time between two log lines of one kind, in microseconds.
const INTERVAL_US: u64 = 1_000_000;

/// Admits one log line per second.
#[derive(Debug)]
pub(crate) struct LogLimit {
    clock: SystemClock,
    /// Instant of the last line, in microseconds; 0 if there was none.
    last: AtomicU64,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self { clock: SystemClock::new(), last: AtomicU64::new(0) }
    }

    /// Whether a line may be logged now; if so, the next may be logged a second later.
    pub(crate) fn may_log(&self) -> bool {
        let (now, last) = (self.clock.now().as_micros(), self.last.load(Ordering::Relaxed));
        now.saturating_sub(last) > INTERVAL_US
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_once_of_each_subject_and_of_each_section() {
        assert!(is_first("one", "limit") && is_first("one", "other limit") && is_first("other", "limit"));
        assert!(!is_first("one", "limit") && !is_first("other", "limit"));
    }

    #[test]
    fn help_is_the_address_of_a_section_in_the_guide_of_this_version() {
        let address = help("store-out");
        let rest = address.strip_prefix("https://docs.rs/ratelimit-actix/").unwrap();
        let rest = rest.strip_prefix(env!("CARGO_PKG_VERSION")).unwrap();
        assert_eq!(rest, "/ratelimit_actix/guide/messages/index.html#store-out");
    }
}
