//! Without the feature `calendar` there are no calendars, so that the code about them is compiled away.

use std::fmt;

#[cfg(feature = "serde")]
pub(crate) use self::fields::CalendarFields;
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

#[cfg(feature = "serde")]
mod fields {
    use serde::de::MapAccess;

    use super::Calendar;
    use crate::policy::Settings;
    use crate::policy::serde::text::FieldValue;

    /// No field is one of a calendar.
    #[derive(Default)]
    pub(crate) struct CalendarFields {}

    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    impl CalendarFields {
        pub(crate) fn read<'de, A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<bool, A::Error> {
            Ok(false)
        }

        pub(crate) fn read_unit(&mut self, _: &str) -> bool {
            false
        }

        pub(crate) fn add_to(self, _: &mut Settings) -> Result<(), String> {
            Ok(())
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as with the feature")]
    impl Calendar {
        pub(in crate::policy) fn add_to(&self, _: &mut Vec<(&'static str, FieldValue<'_>)>) {
            match *self {}
        }
    }
}
