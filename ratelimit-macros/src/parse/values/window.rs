//! The values of `window`, `block` and `lease`.

pub(crate) mod grammar;

use proc_macro2::Span;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{expect_str, literal};
use crate::parse::code::tokens::code_text;
use crate::parse::usage::Usage;
use crate::parse::values::bounds::MAX_LEASE_MICROS;
use crate::parse::values::window::grammar::{EXPECTED, Fault};

/// The length of a window, of a block or of a lease.
pub(crate) struct Length {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// The unit of a number without one, and the longest time in microseconds.
fn unit_and_longest(usage: &Usage) -> (&'static str, u64) {
    if usage.name == "lease" { ("ms", MAX_LEASE_MICROS) } else { ("s", grammar::MAX_MICROS) }
}

/// Reads a time, such as `"60s"`.
pub(crate) fn time(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Length, Reported> {
    let Usage { name, example, .. } = usage;
    let (unit, longest) = unit_and_longest(usage);
    let fault = match (literal(&value), expect_str(usage, &value)) {
        (Some(Lit::Int(integer)), _) => {
            let unit = if integer.suffix().is_empty() { unit } else { integer.suffix() };
            let meant = format!("{}{unit}", integer.base10_digits());
            let meant =
                if takes(usage, &meant) { format!("{name} = \"{meant}\"") } else { (*example).to_owned() };
            format!("`{name}` takes a string, not an integer; did you mean `{meant}`?")
        }
        (_, Ok(text)) => match grammar::parse(&text.value()) {
            Ok(micros) if micros <= longest => return Ok(Length { micros, span: text.span() }),
            Ok(_) => {
                let found = text.value();
                format!("`{name}` must be at most 10 s, found {found:?}; write for example `{example}`")
            }
            Err(fault) => message(usage, &fault),
        },
        (_, Err(fault)) => fault + &elsewhere(usage, &value),
    };
    Err(diagnostics.error(value, fault))
}

/// What to write for a time that is no literal. A lease is always a literal.
fn elsewhere(Usage { name, .. }: &Usage, value: &Expr) -> String {
    match value {
        _ if *name == "lease" => String::new(),
        Expr::Path(_) => {
            "; for a const write a policy in a `static`, and name it: `policy = SEARCH`".to_owned()
        }
        Expr::Field(_) | Expr::MethodCall(_) => {
            let found = code_text(value);
            format!("; overrides replace it when the program starts: `Settings::new().{name}({found})`")
        }
        _ => String::new(),
    }
}

/// Whether a text is a time that the argument takes.
fn takes(usage: &Usage, text: &str) -> bool {
    grammar::parse(text).is_ok_and(|micros| micros <= unit_and_longest(usage).1)
}

/// The fault, and the argument that was probably meant.
pub(crate) fn message(usage: &Usage, Fault { text, meant }: &Fault) -> String {
    let Usage { name, example, .. } = usage;
    // Messages of the grammar begin with `window`, for which it was made.
    let text = text.strip_prefix("`window`").map_or_else(|| text.clone(), |rest| format!("`{name}`{rest}"));
    match meant {
        Some(meant) if takes(usage, meant) => format!("{text}; did you mean `{name} = \"{meant}\"`?"),
        _ => format!("{text}: {EXPECTED}, such as `{example}`"),
    }
}

/// The arguments for a rate in the notation of other rate limiters: `10/minute`, `10 per minute`.
pub(crate) fn arguments_of_rate(text: &str) -> Option<String> {
    let (max, window) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let (max, window) = (max.trim().parse::<u64>().ok()?, window.trim());
    let window = match grammar::parse(window) {
        Ok(_) => window.to_owned(),
        Err(fault) => fault.meant?,
    };
    Some(format!("max = {max}, window = \"{window}\""))
}
