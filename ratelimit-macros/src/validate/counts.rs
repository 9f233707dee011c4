//! Which limits of a handler share a count, so that a request would be charged twice.

use std::rc::Rc;

use proc_macro2::Ident;

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, Argument, value_of};
use crate::parse::bounds::DEFAULT_MAX;
use crate::parse::by::By;
use crate::parse::choice::Mode;
use crate::parse::name::{Key, Text};
use crate::parse::number::Number;
use crate::parse::tokens::path_text;
use crate::validate::arguments::{algorithm, micros};

/// What decides which count a limit has, as far as it is in view: the key, and the rest as text, with const
/// expressions as they are written.
type CountIdentity<'a> = (&'a str, String);

/// Reports each limit of a handler that charges the same caller in the same count as one before it.
///
/// A policy that is not written in the attribute is compared when the program runs.
pub(crate) fn check(group: &[Rc<Args>], diagnostics: &mut Diagnostics) {
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
                count.0
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
fn count(args: &Args) -> Option<CountIdentity<'_>> {
    let (Key::Name(Text { text: key, .. }) | Key::Template(Text { text: key, .. }, _)) =
        value_of(args.key.as_ref())?;
    let algorithm = algorithm(args)?;
    // The unit of a calendar window, whatever its zone and anchor.
    let window = match args.calendar_unit() {
        Some(unit) => unit.name().to_owned(),
        None => micros(args)?.to_string(),
    };
    let sub_windows =
        if algorithm.has("sub_windows") { number(args.sub_windows.as_ref(), 1)? } else { String::new() };
    let bucket = if algorithm.has("burst") {
        let max = number(args.max.as_ref(), DEFAULT_MAX)?;
        let burst = args.burst.as_ref().map_or_else(|| Some(max.clone()), |burst| number(Some(burst), 0))?;
        format!("{max}, {burst}")
    } else {
        String::new()
    };
    let is_shadow = value_of(args.mode.as_ref()) == Some(&Mode::Shadow);
    // The arguments that a concurrency limit does not have are equal here.
    let rest = format!("{is_shadow}, {}, {}, {window}, {sub_windows}, {bucket}", args.kind, algorithm.name);
    Some((key, rest))
}

fn number(argument: Option<&Argument<Number>>, default: u64) -> Option<String> {
    argument.map_or_else(|| Some(default.to_string()), |argument| argument.value.as_ref().ok().map(text))
}

fn text(number: &Number) -> String {
    match number {
        Number::Literal { value, .. } => value.to_string(),
        Number::Constant(code) => code.to_string(),
        Number::PerRequest(function) => function.code().to_string(),
    }
}
