//! Without the feature `calendar` there are no calendars, so that the code about them is compiled away.

use std::fmt;

use super::window::WindowSpan;

#[cfg(feature = "redis")]
pub(crate) type KnownCalendar = Calendar;

/// There is none without the feature `calendar`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calendar {}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as with the feature")]
impl Calendar {
    pub(crate) const fn has_anchor(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn letter(&self) -> u8 {
        match *self {}
    }

    pub(crate) const fn longest_us(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn with_earliest_window(&self, _: u64) -> Self {
        match *self {}
    }

    pub(crate) const fn window_at(&self, _: u64) -> WindowSpan {
        match *self {}
    }
}

#[cfg(feature = "redis")]
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as with the feature")]
impl Calendar {
    pub(crate) const fn id(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn known(&self) -> &'static KnownCalendar {
        match *self {}
    }

    pub(crate) const fn around(&self, _: WindowSpan) -> WindowSpan {
        match *self {}
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
