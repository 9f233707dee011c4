//! Which limits of a handler share a count. A shadow limit needs one of its own: it must not change what others decide.

use quote::ToTokens;

use crate::bounds::{DEFAULT_MAX, DEFAULT_MICROS};
use crate::diagnostics::Diagnostics;
use crate::parse::algorithm::{self, Parameter};
use crate::parse::args::{Args, Argument};
use crate::parse::choice::Mode;
use crate::parse::name::{Key, Name};
use crate::parse::number::{Number, Units};

/// What decides which count a limit has, as far as it is in view. Const expressions are compared by their text.
#[derive(PartialEq)]
struct Count {
    key: String,
    algorithm: &'static str,
    window: u64,
    /// The sub-windows of a counter; rate and size of a bucket.
    parameters: Vec<String>,
}

/// Reports each shadow limit that has the count of an enforced limit of the same handler.
///
/// A policy that is not written in the attribute is compared when the program runs.
pub(crate) fn check(group: &[Args], diagnostics: &mut Diagnostics) {
    for shadow in group.iter().filter(|args| is_shadow(args)) {
        let Some(count) = count(shadow) else { continue };
        let enforced = group
            .iter()
            .filter(|other| other.policy.is_none() && !is_shadow(other))
            .find(|other| self::count(other).as_ref() == Some(&count));
        let keyword = shadow.mode.as_ref().map(|mode| &mode.keyword);
        let (Some(keyword), Some(key)) = (keyword, enforced.and_then(|args| args.key.as_ref())) else {
            continue;
        };
        let message = format!(
            "a shadow limit needs a count of its own, but an enforced limit of this handler has the same key, algorithm \
             and window; write another key, such as `key = \"{}-shadow\"`",
            count.key
        );
        diagnostics.error(keyword, message);
        diagnostics.error(&key.keyword, "the enforced limit has this key");
    }
}

fn is_shadow(args: &Args) -> bool {
    matches!(args.mode.as_ref().map(|mode| &mode.value), Some(Ok(Mode::Shadow)))
}

/// The count of a limit. `None` without a key, which is different for each limit, and in case of a mistake.
fn count(args: &Args) -> Option<Count> {
    let (Key::Name(Name { text, .. }) | Key::Template(Name { text, .. }, _)) =
        args.key.as_ref()?.value.as_ref().ok()?;
    let algorithm = match &args.algorithm {
        None => algorithm::DEFAULT,
        Some(argument) => argument.value.ok()?,
    };
    let window = match &args.window {
        None => DEFAULT_MICROS,
        Some(argument) => argument.value.as_ref().ok()?.micros,
    };
    let mut parameters = Vec::new();
    if algorithm.has(Parameter::SubWindows) {
        parameters.push(number(args.sub_windows.as_ref(), 1)?);
    }
    if algorithm.has(Parameter::Burst) {
        let max = max(args.max.as_ref())?;
        let burst = match &args.burst {
            None => max.clone(),
            burst => number(burst.as_ref(), 0)?,
        };
        parameters.extend([max, burst]);
    }
    Some(Count { key: text.clone(), algorithm: algorithm.name, window, parameters })
}

fn number(argument: Option<&Argument<Number>>, default: u64) -> Option<String> {
    match argument {
        None => Some(default.to_string()),
        Some(argument) => argument.value.as_ref().ok().map(text),
    }
}

fn max(argument: Option<&Argument<Units>>) -> Option<String> {
    match argument {
        None => Some(DEFAULT_MAX.to_string()),
        Some(argument) => match argument.value.as_ref().ok()? {
            Units::Fixed(number) => Some(text(number)),
            Units::PerRequest(function) => Some(function.code().to_string()),
        },
    }
}

fn text(number: &Number) -> String {
    match number {
        Number::Literal { value, .. } => value.to_string(),
        Number::Constant(code) => code.to_token_stream().to_string(),
    }
}
