//! Without the feature `calendar` there are no calendars, so that the code about them is compiled away.

use std::fmt;

use super::window::WindowSpan;

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

    pub(crate) const fn moves(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn windows_by_any_anchor(&self, _: u64) -> [WindowSpan; 2] {
        match *self {}
    }

    pub(crate) const fn window_at(&self, _: u64) -> WindowSpan {
        match *self {}
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
