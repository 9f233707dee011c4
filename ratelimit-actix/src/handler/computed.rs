//! What of a limit's policy is computed for each request: `max`, and the day on which windows of a calendar begin.

use ratelimit_core::Policy;
use ratelimit_core::policy::Calendar;

/// What of a policy is computed for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// Its `max`.
    pub max: bool,
    /// The day on which the windows of its calendar begin.
    pub anchor: bool,
}

impl Computed {
    /// Nothing.
    pub(crate) const NONE: Self = Self { max: false, anchor: false };

    /// The calendar of the policy as a phrase, such as `calendar month in Europe/Berlin from the 15th`.
    #[cfg_attr(
        not(feature = "calendar"),
        allow(clippy::unused_self, reason = "without the feature no limit has a calendar")
    )]
    pub(crate) fn calendar_of(self, policy: &Policy) -> Option<String> {
        let calendar = policy.calendar()?;
        #[cfg(feature = "calendar")]
        if self.anchor {
            let (unit, zone) = (calendar.unit(), calendar.zone());
            return Some(format!("calendar {unit} in {zone} from a day that each request tells"));
        }
        Some(calendar.to_string())
    }
}

/// Numbers of a policy that were computed for one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ComputedNumbers {
    pub(super) max: Option<u64>,
    pub(super) calendar: Option<Calendar>,
}
