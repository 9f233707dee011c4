//! Which limits of a handler share a count, so that a request would be charged twice.

use proc_macro2::Ident;

use crate::bounds::{DEFAULT_MAX, DEFAULT_MICROS};
use crate::diagnostics::Diagnostics;
use crate::kind::Kind;
use crate::parse::algorithm::{self, Parameter};
use crate::parse::args::{Args, Argument, value_of};
use crate::parse::by::By;
use crate::parse::calendar::LimitWindow;
use crate::parse::choice::Mode;
use crate::parse::name::{Key, Text};
use crate::parse::number::Number;
use crate::parse::tokens::path_text;
use crate::validate::calendar;

/// What decides which count a limit has, as far as it is in view. Const expressions are compared by their text.
#[derive(PartialEq)]
struct CountIdentity {
    key: String,
    is_shadow: bool,
    kind: Kind,
    algorithm: &'static str,
    /// The length in microseconds, or the kind of a calendar window, whatever its zone and anchor.
    window: Result<u64, &'static str>,
    /// The sub-windows of a counter; rate and size of a bucket.
    parameters: Vec<String>,
}

/// Reports each limit of a handler that charges the same caller in the same count as one before it.
///
/// A policy that is not written in the attribute is compared when the program runs.
pub(crate) fn check(group: &[Args], diagnostics: &mut Diagnostics) {
    for (index, second) in group.iter().enumerate() {
        let Some(first) = group[..index].iter().find(|first| charge_together(first, second)) else {
            continue;
        };
        let (charged, other) = second.kind.twice();
        if let (Some(first), Some(second)) = (&first.policy, &second.policy) {
            let path = second.value.as_ref().map(path_text).unwrap_or_default();
            let message = format!(
                "two limits of this handler both have the policy `{path}`, so a request {charged}; remove one"
            );
            report(&second.keyword, message, &first.keyword, "the other limit has this policy", diagnostics);
        } else if let (Some(first), Some(second), Some(count)) = (&first.key, &second.key, count(second)) {
            let message = format!(
                "two limits of this handler both count in `{}`, so a request {charged}; remove one, or give it {other}",
                count.key
            );
            report(&second.keyword, message, &first.keyword, "the other limit has this key", diagnostics);
        }
    }
}

/// Whether every request that both limits apply to is charged twice.
///
/// With `skip`, the limits may apply to different requests.
fn charge_together(first: &Args, second: &Args) -> bool {
    if first.skip.is_some() || second.skip.is_some() {
        return false;
    }
    let shared = match (&first.policy, &second.policy) {
        (None, None) => count(first).is_some_and(|count| Some(count) == self::count(second)),
        (Some(first), Some(second)) => match (&first.value, &second.value) {
            (Ok(first), Ok(second)) => path_text(first) == path_text(second),
            _ => false,
        },
        _ => false,
    };
    shared && first.caller().is_some_and(|caller| Some(caller.text()) == second.caller().map(By::text))
}

fn report(at: &Ident, message: String, other: &Ident, note: &str, diagnostics: &mut Diagnostics) {
    diagnostics.error(at, message);
    diagnostics.error(other, note);
}

/// The count of a limit. `None` without a key, which is different for each limit, and in case of a mistake.
fn count(args: &Args) -> Option<CountIdentity> {
    let (Key::Name(Text { text, .. }) | Key::Template(Text { text, .. }, _)) =
        args.key.as_ref()?.value.as_ref().ok()?;
    let algorithm = match &args.algorithm {
        None if calendar::unit(args).is_some() => algorithm::named(calendar::FIXED_WINDOW)?,
        None => algorithm::DEFAULT,
        Some(argument) => argument.value.ok()?,
    };
    let window = match &args.window {
        None => Ok(DEFAULT_MICROS),
        Some(argument) => match argument.value.as_ref().ok()? {
            LimitWindow::Length(window) => Ok(window.micros),
            LimitWindow::Calendar(unit, _) => Err(unit.name()),
        },
    };
    let mut parameters = Vec::new();
    if algorithm.has(Parameter::SubWindows) {
        parameters.push(number(args.sub_windows.as_ref(), 1)?);
    }
    if algorithm.has(Parameter::Burst) {
        let max = number(args.max.as_ref(), DEFAULT_MAX)?;
        let burst = match &args.burst {
            None => max.clone(),
            burst => number(burst.as_ref(), 0)?,
        };
        parameters.extend([max, burst]);
    }
    let is_shadow = value_of(args.mode.as_ref()) == Some(&Mode::Shadow);
    // The arguments that a concurrency limit does not have are equal here.
    Some(CountIdentity {
        key: text.clone(),
        is_shadow,
        kind: args.kind,
        algorithm: algorithm.name,
        window,
        parameters,
    })
}

fn number(argument: Option<&Argument<Number>>, default: u64) -> Option<String> {
    match argument {
        None => Some(default.to_string()),
        Some(argument) => argument.value.as_ref().ok().map(text),
    }
}

fn text(number: &Number) -> String {
    match number {
        Number::Literal { value, .. } => value.to_string(),
        Number::Constant(code) => code.to_string(),
        Number::PerRequest(function) => function.code().to_string(),
    }
}
