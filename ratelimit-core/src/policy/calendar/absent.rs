//! Without the feature `calendar` there are no calendars, so that the code about them is compiled away.
#![allow(clippy::trivially_copy_pass_by_ref, reason = "the signatures of calendar.rs")]

use std::fmt;

use super::window_span::WindowSpan;

/// There is none without the feature `calendar`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calendar {}

#[cfg(feature = "redis")]
pub(crate) type KnownCalendar = Calendar;

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

    #[cfg(feature = "redis")]
    pub(crate) const fn id(&self) -> u64 {
        match *self {}
    }

    #[cfg(feature = "redis")]
    pub(crate) fn known(&self) -> &'static KnownCalendar {
        match *self {}
    }

    #[cfg(feature = "redis")]
    pub(crate) fn around(&self, _window: WindowSpan) -> WindowSpan {
        match *self {}
    }

    pub(crate) fn with_earliest_window(&self, _now: u64) -> Self {
        match *self {}
    }

    pub(crate) fn window_at(&self, _now: u64) -> WindowSpan {
        match *self {}
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
