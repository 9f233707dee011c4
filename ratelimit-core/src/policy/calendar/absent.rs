//! Without the feature `calendar` there are no calendars, so that the code about them is compiled away.

use std::fmt;

use super::window::WindowSpan;
use crate::absent::absent;

#[cfg(feature = "redis")]
pub(crate) type KnownCalendar = Calendar;

absent! {
    /// There is none without the feature `calendar`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Calendar {
        pub(crate) fn has_anchor(&self) -> bool;
        pub(crate) fn letter(&self) -> u8;
        pub(crate) fn longest_us(&self) -> u64;
        #[cfg(feature = "redis")]
        pub(crate) fn id(&self) -> u64;
        #[cfg(feature = "redis")]
        pub(crate) fn known(&self) -> &'static KnownCalendar;
        #[cfg(feature = "redis")]
        pub(crate) fn around(&self, _window: WindowSpan) -> WindowSpan;
        pub(crate) fn with_earliest_window(&self, _now: u64) -> Self;
        pub(crate) fn window_at(&self, _now: u64) -> WindowSpan;
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
