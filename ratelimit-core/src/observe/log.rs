//! Lines of the log: the address that explains a line, and limits of how often a line is logged: once in a
//! process, once a second, or once a minute.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::clock::{Clock, SystemClock, Timestamp};

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

/// Whether the line of a section was not logged about `subject` yet in this process.
#[cold]
pub fn is_first(section: &'static str, subject: impl Hash) -> bool {
    static LOGGED: LazyLock<Noted> = LazyLock::new(Noted::default);
    let mut hasher = DefaultHasher::new();
    (section, subject).hash(&mut hasher);
    LOGGED.note(hasher.finish())
}

/// Largest number of ids in a set. A full set has every id, so new lines of the log are left out.
const MAX_IDS: usize = 4_096;

/// A bounded set of ids, such as those of policies' states: what has been logged once.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    ids: RwLock<HashSet<u64>>,
}

impl Noted {
    /// Adds an id. Whether the set did not have it.
    pub(crate) fn note(&self, id: u64) -> bool {
        !self.may_have(id) && self.ids.write().insert(id)
    }

    /// Whether the set has an id, or so many that it may.
    fn may_have(&self, id: u64) -> bool {
        let ids = self.ids.read();
        ids.len() > MAX_IDS || ids.contains(&id)
    }
}

/// Minimum time between two log lines of one kind, in microseconds.
const INTERVAL_US: u64 = 1_000_000;

/// Admits one log line per second.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    clock: SystemClock,
    /// Instant of the last line, in microseconds; 0 if there was none.
    last: AtomicU64,
}

impl LogLimit {
    /// Whether a line may be logged now; if so, the next may be logged a second later.
    pub(crate) fn may_log(&self) -> bool {
        let (now, last) = (self.clock.now().as_micros(), self.last.load(Ordering::Relaxed));
        now.saturating_sub(last) > INTERVAL_US
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Minimum time between two lines with one name, in microseconds.
const NAME_INTERVAL_US: u64 = 60_000_000;

/// Largest number of names whose last line is remembered. Policies made at run time may have any number of
/// names.
const MAX_NAMES: usize = 1_000;

/// Admits one log line per minute and name.
#[derive(Debug, Default)]
pub(crate) struct LogLimitByName {
    clock: SystemClock,
    /// Instant of the last line with each name.
    last_lines: Mutex<HashMap<String, Timestamp>>,
}

impl LogLimitByName {
    /// Whether a line with this name may be logged now; if so, the next may be logged a minute later.
    pub(crate) fn may_log(&self, name: &str) -> bool {
        let now = self.clock.now();
        let is_recent = |last: Timestamp| now.as_micros().saturating_sub(last.as_micros()) < NAME_INTERVAL_US;
        let mut last_lines = self.last_lines.lock();
        if let Some(last) = last_lines.get_mut(name) {
            let may_log = !is_recent(*last);
            if may_log {
                *last = now;
            }
            return may_log;
        }
        if last_lines.len() >= MAX_NAMES {
            last_lines.retain(|_, last| is_recent(*last));
        }
        let has_room = last_lines.len() < MAX_NAMES;
        if has_room {
            last_lines.insert(name.to_owned(), now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_logged_once_a_minute() {
        let limit = LogLimitByName::default();
        assert_eq!(
            ["a", "a", "b", "a", "b"].map(|name| limit.may_log(name)),
            [true, false, true, false, false]
        );
        // A minute passes.
        let earlier = Timestamp::from_micros(limit.clock.now().as_micros() - NAME_INTERVAL_US);
        limit.last_lines.lock().insert("a".to_owned(), earlier);
        assert_eq!(["a", "a", "b"].map(|name| limit.may_log(name)), [true, false, false]);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let limit = LogLimitByName::default();
        let logged = (0..2 * MAX_NAMES).filter(|number| limit.may_log(&number.to_string())).count();
        assert_eq!((logged, limit.last_lines.lock().len()), (MAX_NAMES, MAX_NAMES));
        for last in limit.last_lines.lock().values_mut() {
            *last = Timestamp::from_micros(last.as_micros() - NAME_INTERVAL_US);
        }
        assert!(limit.may_log("another"), "the old ones are forgotten");
    }

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

    #[test]
    fn above_4096_ids_every_id_counts_as_one_of_them_and_no_more_are_kept() {
        let set = Noted::default();
        for id in 1..=4_096 {
            assert!(set.note(id) && !set.note(id), "the first time only");
        }
        assert!(set.may_have(1) && set.may_have(4_096));
        assert!(!set.may_have(0) && !set.may_have(4_097), "distinguished up to the bound");
        for id in 4_097..20_000 {
            assert_eq!(set.note(id), id == 4_097);
        }
        assert!(set.may_have(0) && set.may_have(u64::MAX), "beyond it");
        assert_eq!(set.ids.read().len(), MAX_IDS + 1);
    }
}
