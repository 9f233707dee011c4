//! When a queue's task wakes up for a deadline, and the grace of an alarm that it missed.

use std::time::{Duration, Instant};

use crate::store::redis::timeouts::{MOST_GRACE, grace};

/// The alarm of a queue's task.
#[derive(Default)]
pub(super) struct Alarm {
    /// When a deadline passes next, or earlier.
    at: Option<Instant>,
    /// Sum of the graces in a row.
    graces: Duration,
    /// End of the grace. Nothing ends by its deadline before.
    until: Option<Instant>,
}

impl Alarm {
    pub(super) const fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Sets it for an instant, if it is not set for an earlier one. It is never moved later: a wake too many
    /// is cheaper than a timer for each call.
    pub(super) fn set(&mut self, at: Option<Instant>) {
        let at = at.map(|at| self.until.map_or(at, |until| at.max(until)));
        if let Some(at) = at
            && self.at.is_none_or(|alarm| at < alarm)
        {
            self.at = Some(at);
        }
    }

    /// By how much it was missed at `now`.
    pub(super) fn lateness(&self, now: Instant) -> Duration {
        self.at.map(|alarm| now.saturating_duration_since(alarm)).unwrap_or_default()
    }

    /// Puts it off if it was missed, so that replies that came meanwhile are read before their calls time
    /// out. Returns whether it was.
    pub(super) fn put_off_if_missed(&mut self, now: Instant) -> bool {
        let grace = grace(self.lateness(now)).filter(|_| self.graces < MOST_GRACE);
        let Some(grace) = grace else { return false };
        self.graces += grace;
        self.until = Some(now + grace);
        self.at = self.until;
        true
    }

    /// It has rung.
    pub(super) const fn clear(&mut self) {
        self.at = None;
    }

    /// What was read in the grace has been read.
    pub(super) const fn end_grace(&mut self) {
        (self.graces, self.until) = (Duration::ZERO, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::deadline::now;

    const MILLIS: Duration = Duration::from_millis(1);

    #[test]
    fn an_alarm_is_only_moved_earlier() {
        let (start, mut alarm) = (now(), Alarm::default());
        for (at, expected) in [(None, None), (Some(20), Some(20)), (Some(30), Some(20)), (Some(10), Some(10))]
        {
            alarm.set(at.map(|at| start + at * MILLIS));
            assert_eq!(alarm.at(), expected.map(|at| start + at * MILLIS));
        }
    }

    #[test]
    fn a_deadline_inside_of_a_grace_is_looked_at_behind_it() {
        let (start, mut alarm) = (now(), Alarm::default());
        alarm.set(Some(start));
        let missed = start + 100 * MILLIS;
        assert!(alarm.put_off_if_missed(missed));
        let end = alarm.at().unwrap();
        assert!(end > missed);
        alarm.clear();
        alarm.set(Some(missed));
        assert_eq!(alarm.at(), Some(end));
        alarm.end_grace();
        alarm.set(Some(missed));
        assert_eq!(alarm.at(), Some(missed));
    }

    #[test]
    fn graces_in_a_row_end() {
        let (mut now, mut alarm) = (now(), Alarm::default());
        alarm.set(Some(now));
        let mut graces = 0;
        loop {
            now += Duration::from_secs(1);
            if !alarm.put_off_if_missed(now) {
                break;
            }
            graces += 1;
            assert!(graces < 100);
        }
        assert!(graces > 1, "{graces}");
        alarm.end_grace();
        assert!(alarm.put_off_if_missed(now));
    }
}
