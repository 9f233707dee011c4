//! The plan of a request: a name for which overrides may have numbers.

use std::borrow::Cow;

/// The name of the plan of a request, or none. There is no constructor: [`IntoPlan`] makes one from a name.
#[derive(Clone, Debug, Default)]
pub struct Plan(Option<Box<str>>);

impl Plan {
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// The name of a plan: what a function of `plan = ..` may return.
///
/// A `&str`, `String` or `Cow<str>`, or an `Option` of these: `None` is no plan. A type of your own:
///
/// ```
/// use ratelimit_actix::{IntoPlan, Plan};
///
/// enum Tier {
///     Free,
///     Pro,
/// }
///
/// impl IntoPlan for Tier {
///     fn into_plan(self) -> Plan {
///         matches!(self, Self::Pro).then_some("pro").into_plan()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a plan",
    label = "returns `{Self}`",
    note = "a function for `plan = ..` returns a `&str`, `String` or `Cow<str>`, or an `Option` of these"
)]
pub trait IntoPlan {
    /// Converts the value.
    fn into_plan(self) -> Plan;
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl IntoPlan for $text {
            fn into_plan(self) -> Plan {
                Plan(Some(Cow::from(self).into()))
            }
        }
    )*};
}

texts!(&str, &String, String, Cow<'_, str>);

impl<P: IntoPlan> IntoPlan for Option<P> {
    fn into_plan(self) -> Plan {
        self.map_or_else(Plan::default, P::into_plan)
    }
}
