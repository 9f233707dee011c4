//! Rules between the arguments of one attribute.

use syn::{Attribute, ExprPath};

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, Argument, value_of};
use crate::parse::code::by::By;
use crate::parse::code::tokens::path_text;
use crate::parse::kind::Kind;
use crate::parse::usage::Usage;
use crate::parse::values::algorithm::{self, ALGORITHMS, Algorithm};
use crate::parse::values::bounds::{DEFAULT_MAX, DEFAULT_MICROS, SUB_WINDOWS};
use crate::parse::values::calendar::{Anchor, Window};
use crate::parse::values::choice::{ChargeTime, Count, Responses};
use crate::parse::values::name::Key;
use crate::parse::values::number::Number;
use crate::parse::values::window::grammar;
use crate::validate::calendar;

/// Reads the arguments of an attribute, and records a mistake for each broken rule between them.
pub(crate) fn read(kind: Kind, attribute: &Attribute, diagnostics: &mut Diagnostics) -> Args {
    let args = Args::parse(kind, attribute, diagnostics);
    let has_max = args.max.is_some() || args.policy.is_some() || args.has_unknown;
    // No number of requests at a time suits most handlers.
    if kind == Kind::Concurrency && !has_max {
        let message = "`max` is missing, the number of requests of a caller that run at a time; write for example \
                       `#[concurrency_limit(max = 3)]`";
        diagnostics.error(attribute, message);
    }
    if let Some(policy) = &args.policy {
        // The numbers of the policy are not in view. The compiler compares them with `cost`.
        check_policy(policy, &args, diagnostics);
    } else {
        calendar::check(&args, diagnostics);
        check_number(args.sub_windows.as_ref(), sub_windows_fault, &args, diagnostics);
        check_number(args.burst.as_ref(), burst_fault, &args, diagnostics);
        check_block(&args, diagnostics);
        check_number(args.cost.as_ref(), cost_fault, &args, diagnostics);
    }
    check_lease(&args, diagnostics);
    check_charge(&args, diagnostics);
    check_contradictions(&args, diagnostics);
    args
}

/// The algorithm of the limit. `None` if its name is wrong.
pub(super) fn algorithm(args: &Args) -> Option<&'static Algorithm> {
    match &args.algorithm {
        None if args.calendar_unit().is_some() => algorithm::named(calendar::ALGORITHM),
        None => Some(algorithm::DEFAULT),
        Some(argument) => argument.value.ok(),
    }
}

/// The fault of an argument that is for other algorithms.
fn misplaced(name: &str, args: &Args) -> Option<String> {
    let found = algorithm(args)?;
    let owners = ALGORITHMS.iter().filter(|algorithm| algorithm.has(name));
    let owners: Vec<String> = owners.map(|owner| format!("`algorithm = \"{}\"`", owner.name)).collect();
    (!found.has(name) && !owners.is_empty()).then(|| {
        format!(
            "`{name}` is only for {}, found \"{}\"; remove `{name}` or change the algorithm",
            owners.join(" or "),
            found.name
        )
    })
}

/// The literal of an argument or its default. `None` for any other number, and for a wrong value.
fn literal(argument: Option<&Argument<Number>>, default: Option<u64>) -> Option<u64> {
    argument.map_or(default, |argument| argument.value.as_ref().ok().and_then(Number::literal))
}

/// The literal of `max` or its default.
fn max(args: &Args) -> Option<u64> {
    literal(args.max.as_ref(), Some(DEFAULT_MAX))
}

/// The length of the window. `None` for a calendar window, and for a wrong value.
pub(super) fn micros(args: &Args) -> Option<u64> {
    match &args.window {
        None => Some(DEFAULT_MICROS),
        Some(argument) => argument.value.as_ref().ok().and_then(Window::micros),
    }
}

/// Reports each argument that belongs to the policy of `policy`.
fn check_policy(policy: &Argument<ExprPath>, args: &Args, diagnostics: &mut Diagnostics) {
    let path = policy.value.as_ref();
    let path = path.map_or_else(|_| "the policy".to_owned(), |path| format!("`{}`", path_text(path)));
    for keyword in args.present(Usage::is_of_policy) {
        let remedy = "remove this one and set it in the policy, or remove `policy`";
        diagnostics.error(keyword, format!("{path} has its own `{keyword}`; {remedy}"));
    }
}

/// Reports a number that the algorithm does not have, or a literal in which `fault_of` finds a fault.
fn check_number(
    argument: Option<&Argument<Number>>,
    fault_of: fn(u64, &Args) -> Option<String>,
    args: &Args,
    diagnostics: &mut Diagnostics,
) {
    let Some(Argument { keyword, value }) = argument else { return };
    if let Some(fault) = misplaced(&keyword.to_string(), args) {
        diagnostics.error(keyword, fault);
    } else if let Ok(Number::Literal { value, span }) = value
        && let Some(fault) = fault_of(*value, args)
    {
        diagnostics.error_at(*span, fault);
    }
}

fn sub_windows_fault(parts: u64, args: &Args) -> Option<String> {
    let micros = micros(args).filter(|micros| !micros.is_multiple_of(parts))?;
    let divisors = || SUB_WINDOWS.filter(|other| micros.is_multiple_of(*other));
    let nearest = [divisors().rfind(|other| *other < parts), divisors().find(|other| *other > parts)];
    let choices = nearest.into_iter().flatten().map(|other| format!("`sub_windows = {other}`"));
    let choices = choices.collect::<Vec<_>>().join(" or ");
    Some(format!(
        "a window of {micros} microseconds cannot be divided into {parts} equal parts; write {choices}"
    ))
}

fn burst_fault(burst: u64, args: &Args) -> Option<String> {
    let (max, micros) = (max(args)?, micros(args)?);
    let most = u128::from(grammar::MAX_MICROS) * u128::from(max) / u128::from(micros);
    (u128::from(burst) > most).then(|| {
        format!(
            "a burst of {burst} takes more than 366 days to refill at {max} per window; \
             write at most `burst = {most}`"
        )
    })
}

fn cost_fault(cost: u64, args: &Args) -> Option<String> {
    let (what, most) = match &args.burst {
        Some(burst) if algorithm(args)?.has("burst") => ("burst", literal(Some(burst), None)?),
        _ => ("max", max(args)?),
    };
    (cost > most).then(|| {
        format!(
            "`cost` must be at most `{what}`, which is {most}, found {cost}: no call could ever pass; \
             write `cost = {most}` or raise `{what}`"
        )
    })
}

/// A block must not end while units that were charged before it still count: not before the window, and not
/// before a bucket is full.
fn check_block(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(block) = value_of(args.block.as_ref()) else { return };
    let Some(window) = micros(args) else { return };
    let by_default = if args.window.is_none() { " by default" } else { "" };
    let refill = match (literal(args.burst.as_ref(), None), max(args)) {
        (Some(burst), Some(max)) => (u128::from(burst) * u128::from(window)).div_ceil(u128::from(max)),
        _ => 0,
    };
    // Times in the attribute are whole milliseconds.
    let refill = u64::try_from(refill.div_ceil(1000) * 1000).unwrap_or(u64::MAX);
    let (least, what) = if refill > window && refill <= grammar::MAX_MICROS {
        (refill, format!("the time to refill a full bucket, which is {}", grammar::format(refill)))
    } else {
        (window, format!("the window, which is {}{by_default}", grammar::format(window)))
    };
    if block.micros < least {
        let message = format!(
            "`block` must be at least {what}, found {}; write for example `block = \"{}\"`",
            grammar::format(block.micros),
            grammar::format(least)
        );
        diagnostics.error_at(block.span, message);
    }
}

/// Arguments that contradict another one, with the message.
fn check_contradictions(args: &Args, diagnostics: &mut Diagnostics) {
    let is_template = matches!(value_of(args.key.as_ref()), Some(Key::Template(..)));
    let is_global = matches!(value_of(args.by.as_ref()), Some(By::Global));
    let is_max_computed = matches!(value_of(args.max.as_ref()), Some(Number::PerRequest(_)));
    let is_anchor_computed = matches!(value_of(args.anchor.as_ref()), Some(Anchor::PerRequest(_)));
    for (name, contradicts, message) in [
        (
            "by",
            is_template,
            "`by` and the placeholders of `key` both name the caller; remove `by`, or write a key without placeholders",
        ),
        (
            "on_missing",
            is_global,
            "`on_missing` has no effect with `by = global`, where every request has a caller; remove it",
        ),
        (
            "lease",
            is_max_computed,
            "`lease` needs a `max` that is the same for every request of a caller, because unused units were charged under it; \
             remove `lease`, or write a constant `max`",
        ),
        (
            "lease",
            is_anchor_computed,
            "`lease` needs an `anchor` that is the same for every request of a caller, because unused units end with the window; \
             remove `lease`, or write a constant `anchor`",
        ),
    ] {
        for keyword in args.present(|usage| contradicts && usage.name == name) {
            diagnostics.error(keyword, message);
        }
    }
}

fn check_lease(args: &Args, diagnostics: &mut Diagnostics) {
    let algorithm = value_of(args.algorithm.as_ref());
    if let (Some(lease), Some(Algorithm { name, no_lease: Some(reason), .. })) = (&args.lease, algorithm) {
        let message = format!(
            "`lease` is not for \"{name}\", {reason}; remove `lease`, or write \
             `algorithm = \"sliding_window_counter\", sub_windows = 60`"
        );
        diagnostics.error(&lease.keyword, message);
    }
}

/// Rules of a charge after the response. A limit with `count` and `block` always charges so.
fn check_charge(args: &Args, diagnostics: &mut Diagnostics) {
    let counts_all =
        args.count.as_ref().is_none_or(|count| matches!(count.value, Ok(Responses::Named(Count::All))));
    if let Some(charge) = &args.charge {
        if counts_all {
            let message = "`charge` is for a limit of which some responses do not count; write `count` beside it, such as \
                           `count = \"failures\"`, or remove `charge`";
            diagnostics.error(&charge.keyword, message);
        } else if let (Ok(ChargeTime::Before), Some(_)) = (&charge.value, &args.block) {
            let message = "a request that is charged before its response, and refunded later, could begin the block; remove \
                           `charge`, or write two limits: one with `block`, and one with `charge = \"before\"`";
            diagnostics.error(&charge.keyword, message);
        }
    }
    let is_after = value_of(args.charge.as_ref()) == Some(&ChargeTime::After) || args.block.is_some();
    if let (Some(lease), false, true) = (&args.lease, counts_all, is_after) {
        let message = "a limit that charges after the response, as one with `count` and `block` does, has no `lease`, whose \
                       units are charged ahead; remove `lease`";
        diagnostics.error(&lease.keyword, message);
    }
}
