//! Which limits of a handler share a count, so that a request would be charged twice.

use std::rc::Rc;

use proc_macro2::Ident;

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, Argument, value_of};
use crate::parse::code::by::By;
use crate::parse::code::tokens::path_text;
use crate::parse::values::bounds::DEFAULT_MAX;
use crate::parse::values::choice::Mode;
use crate::parse::values::name::{Key, Text};
use crate::parse::values::number::Number;
use crate::validate::arguments::{algorithm, micros};

/// The count of a limit, as far as it is in view.
struct Count<'a> {
    /// The argument that names it.
    keyword: &'a Ident,
    /// The limit with this argument, in a message.
    what: String,
    /// What else decides which count it is, with const expressions as they are written.
    rest: Vec<String>,
}

/// Reports each limit of a handler that charges the same caller in the same count as one before it.
///
/// A policy that is not written in the attribute is compared when the program runs.
pub(crate) fn check(group: &[Rc<Args>], diagnostics: &mut Diagnostics) {
    for (index, second) in group.iter().enumerate() {
        let Some(count) = count(second) else { continue };
        let before = group[..index].iter().filter(|first| may_coincide(first, second));
        let mut before = before.filter_map(|first| self::count(first));
        let same = before.find(|first| (&first.what, &first.rest) == (&count.what, &count.rest));
        let Some(Count { keyword, .. }) = same else { continue };
        let (charged, other) = second.kind.twice();
        let remedy = if second.policy.is_some() { String::new() } else { format!(", or give it {other}") };
        let what = count.what;
        let message =
            format!("two limits of this handler both {what}, so a request {charged}; remove one{remedy}");
        diagnostics.error(count.keyword, message);
        diagnostics.error(keyword, format!("the other limit has this {keyword}"));
    }
}

/// Whether both limits apply to the same requests, of the same callers. With `skip` they may apply to
/// different ones.
fn may_coincide(first: &Args, second: &Args) -> bool {
    let texts = [first, second].map(|args| args.caller().map(By::text));
    first.skip.is_none() && second.skip.is_none() && texts[0].is_some() && texts[0] == texts[1]
}

/// The count of a limit. `None` without a key, which is different for each limit, and in case of a mistake.
fn count(args: &Args) -> Option<Count<'_>> {
    if let Some(Argument { keyword, value }) = &args.policy {
        let what = format!("have the policy `{}`", path_text(value.as_ref().ok()?));
        return Some(Count { keyword, what, rest: Vec::new() });
    }
    let Argument { keyword, value } = args.key.as_ref()?;
    let (Key::Name(Text { text: key, .. }) | Key::Template(Text { text: key, .. }, _)) =
        value.as_ref().ok()?;
    let algorithm = algorithm(args)?;
    // The unit of a calendar window, whatever its zone and anchor.
    let window = match args.calendar_unit() {
        Some(unit) => unit.name().to_owned(),
        None => micros(args)?.to_string(),
    };
    let is_shadow = value_of(args.mode.as_ref()) == Some(&Mode::Shadow);
    let mut rest = vec![args.kind.to_string(), is_shadow.to_string(), algorithm.name.to_owned(), window];
    if algorithm.has("sub_windows") {
        rest.push(number(args.sub_windows.as_ref(), 1)?);
    }
    if algorithm.has("burst") {
        let max = number(args.max.as_ref(), DEFAULT_MAX)?;
        let burst = args.burst.as_ref().map_or_else(|| Some(max.clone()), |burst| number(Some(burst), 0))?;
        rest.extend([max, burst]);
    }
    Some(Count { keyword, what: format!("count in `{key}`"), rest })
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
