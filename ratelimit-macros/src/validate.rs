//! The rules between arguments: what remains is a specification that can be written out.

use quote::ToTokens;
use syn::ext::IdentExt;

use crate::algorithm::Algorithm;
use crate::args::{Args, Argument};
use crate::diagnostics::{Diagnostics, Reported};
use crate::handler::{Handler, find_self};
use crate::paths::Root;
use crate::value::{By, Name, Number, SUB_WINDOWS, Window};
use crate::window;

/// Units per window when nothing else is said.
const DEFAULT_MAX: u64 = 100;

/// The window in microseconds when nothing else is said: 60 s.
const DEFAULT_MICROS: u64 = 60_000_000;

/// A handler and its limits, free of mistakes.
pub(crate) struct Spec {
    pub(crate) root: Root,
    pub(crate) handler: Handler,
    pub(crate) limits: Vec<Limit>,
}

/// One limit.
pub(crate) struct Limit {
    pub(crate) key: Key,
    pub(crate) max: Option<Number>,
    pub(crate) window: Option<Window>,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) sub_windows: Option<Number>,
    pub(crate) burst: Option<Number>,
    pub(crate) name: Option<Name>,
    pub(crate) by: By,
    pub(crate) cost: Option<Number>,
}

/// The name under which counts are kept.
pub(crate) enum Key {
    Given(Name),
    /// Module path and this.
    Function(String),
}

/// Joins the arguments of every attribute with the handler.
pub(crate) fn validate(
    group: Vec<Args>,
    handler: Result<Handler, Reported>,
    diagnostics: &mut Diagnostics,
) -> Result<Spec, Reported> {
    let mut root: Option<Argument<syn::ExprPath>> = None;
    let mut limits = Vec::new();
    for (index, mut args) in group.into_iter().enumerate() {
        if let Some(other) = args.root.take() {
            check_root(root.as_ref(), &other, diagnostics);
            root = root.or(Some(other));
        }
        limits.push(limit(args, index, handler.as_ref().ok(), diagnostics));
    }
    Ok(Spec {
        root: match root {
            None => Root::Default,
            Some(root) => Root::Given(root.value?),
        },
        handler: handler?,
        limits: limits.into_iter().collect::<Result<_, _>>()?,
    })
}

/// All attributes on a handler are expanded as one, so they cannot name two facades.
fn check_root(
    first: Option<&Argument<syn::ExprPath>>,
    other: &Argument<syn::ExprPath>,
    diagnostics: &mut Diagnostics,
) {
    if let (Some(Ok(first)), Ok(other)) = (first.map(|first| &first.value), &other.value)
        && first.to_token_stream().to_string() != other.to_token_stream().to_string()
    {
        diagnostics.error(other, "the attributes on one handler need the same `crate`; give it once");
    }
}

fn limit(
    args: Args,
    index: usize,
    handler: Option<&Handler>,
    diagnostics: &mut Diagnostics,
) -> Result<Limit, Reported> {
    check_sub_windows(&args, diagnostics);
    check_burst(&args, diagnostics);
    check_cost(&args, diagnostics);
    check_self(&args, diagnostics);
    let key = match given(args.key)? {
        Some(key) => Key::Given(key),
        None => default_key(index, handler, diagnostics)?,
    };
    Ok(Limit {
        key,
        max: given(args.max)?,
        window: given(args.window)?,
        algorithm: given(args.algorithm)?,
        sub_windows: given(args.sub_windows)?,
        burst: given(args.burst)?,
        name: given(args.name)?,
        by: given(args.by)?.unwrap_or(By::Ip),
        cost: given(args.cost)?,
    })
}

fn given<T>(argument: Option<Argument<T>>) -> Result<Option<T>, Reported> {
    argument.map(|argument| argument.value).transpose()
}

/// The handler's name; a further limit on it adds its position, since headers list policies by name.
fn default_key(
    index: usize,
    handler: Option<&Handler>,
    diagnostics: &mut Diagnostics,
) -> Result<Key, Reported> {
    let Some(handler) = handler else {
        return Ok(Key::Function(String::new()));
    };
    let name = handler.signature.ident.unraw().to_string();
    if !name.is_ascii() {
        return Err(diagnostics.error(
            &handler.signature.ident,
            "the name of this function is not ASCII and cannot be a key: give one, such as `key = \"user-api\"`",
        ));
    }
    Ok(Key::Function(if index == 0 { name } else { format!("{name}#{}", index + 1) }))
}

/// What the limit counts as; nothing when that is known to be wrong.
fn algorithm(args: &Args) -> Option<Algorithm> {
    match &args.algorithm {
        None => Some(Algorithm::SlidingWindowCounter),
        Some(argument) => argument.value.ok(),
    }
}

/// The value of an argument or its default; nothing when it is known only to the compiler, or wrong.
fn literal(argument: Option<&Argument<Number>>, default: Option<u64>) -> Option<u64> {
    match argument {
        None => default,
        Some(argument) => argument.value.as_ref().ok().and_then(Number::literal),
    }
}

fn micros(args: &Args) -> Option<u64> {
    match &args.window {
        None => Some(DEFAULT_MICROS),
        Some(argument) => argument.value.as_ref().ok().map(|window| window.micros),
    }
}

fn check_sub_windows(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(argument) = &args.sub_windows else {
        return;
    };
    match algorithm(args) {
        Some(Algorithm::SlidingWindowCounter) | None => {}
        Some(other) => {
            let message = format!(
                "`sub_windows` is only for `algorithm = \"sliding_window_counter\"`, found \"{}\"; \
                 remove `sub_windows` or change the algorithm",
                other.name()
            );
            diagnostics.error(&argument.keyword, message);
            return;
        }
    }
    if let (Some(parts), Some(micros)) = (literal(Some(argument), None), micros(args))
        && !micros.is_multiple_of(parts)
    {
        let divisors = || SUB_WINDOWS.filter(|other| micros.is_multiple_of(*other));
        let choices: Vec<String> =
            [divisors().rfind(|other| *other < parts), divisors().find(|other| *other > parts)]
                .into_iter()
                .flatten()
                .map(|other| format!("`sub_windows = {other}`"))
                .collect();
        let message = format!(
            "a window of {micros} microseconds cannot be divided into {parts} equal parts; write {}",
            choices.join(" or ")
        );
        report_at(argument, &message, diagnostics);
    }
}

fn check_burst(args: &Args, diagnostics: &mut Diagnostics) {
    if let (Some(argument), Some(other)) = (&args.burst, algorithm(args))
        && other != Algorithm::TokenBucket
    {
        let message = format!(
            "`burst` is only for `algorithm = \"token_bucket\"`, found \"{}\"; \
             remove `burst` or change the algorithm",
            other.name()
        );
        diagnostics.error(&argument.keyword, message);
        return;
    }
    let max = literal(args.max.as_ref(), Some(DEFAULT_MAX));
    if let (Some(argument), Some(max), Some(micros)) = (&args.burst, max, micros(args))
        && let Some(burst) = literal(Some(argument), None)
        && u128::from(burst) * u128::from(micros) > u128::from(window::MAX_MICROS) * u128::from(max)
    {
        let most = u128::from(window::MAX_MICROS) * u128::from(max) / u128::from(micros);
        let message = format!(
            "a burst of {burst} takes more than 366 days to refill at {max} per window; \
             write at most `burst = {most}`"
        );
        report_at(argument, &message, diagnostics);
    }
}

fn check_cost(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(argument) = &args.cost else { return };
    let Some(algorithm) = algorithm(args) else {
        return;
    };
    let max = literal(args.max.as_ref(), Some(DEFAULT_MAX));
    let (what, most) = match &args.burst {
        Some(burst) if algorithm == Algorithm::TokenBucket => ("burst", literal(Some(burst), None)),
        _ => ("max", max),
    };
    if let (Some(cost), Some(most)) = (literal(Some(argument), None), most)
        && cost > most
    {
        let message = format!(
            "`cost` must be at most `{what}`, which is {most}, found {cost}: no call could ever pass; \
             write `cost = {most}` or raise `{what}`"
        );
        report_at(argument, &message, diagnostics);
    }
}

/// The numbers and the function stand inside the wrapper, where `Self` means nothing.
fn check_self(args: &Args, diagnostics: &mut Diagnostics) {
    const HELP: &str = "`Self` cannot be named in #[rate_limit]; write the name of the type instead";
    for argument in [&args.max, &args.sub_windows, &args.burst, &args.cost].into_iter().flatten() {
        if let Ok(Number::Constant(tokens)) = &argument.value
            && let Some(own_type) = find_self(tokens.clone())
        {
            diagnostics.error(own_type, HELP);
        }
    }
    if let Some(Ok(By::Function(path))) = args.by.as_ref().map(|by| &by.value)
        && let Some(own_type) = find_self(path.to_token_stream())
    {
        diagnostics.error(own_type, HELP);
    }
}

/// Reports a wrong number at the number.
fn report_at(argument: &Argument<Number>, message: &str, diagnostics: &mut Diagnostics) {
    match &argument.value {
        Ok(Number::Literal { span, .. }) => diagnostics.error_at(*span, message),
        _ => diagnostics.error(&argument.keyword, message),
    };
}
