//! The value of `lease`.

use proc_macro2::Span;
use syn::{Expr, Lit};

use crate::bounds::MAX_LEASE_MICROS;
use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped};
use crate::parse::window::grammar::{self, EXPECTED, Fault};

/// The length of a lease.
pub(crate) struct Lease {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// Reads a lease such as `"100ms"`; `example` is the whole argument.
pub(crate) fn read(example: &str, value: Expr, diagnostics: &mut Diagnostics) -> Result<Lease, Reported> {
    let value = ungrouped(value);
    let fault = match literal(&value) {
        Some(Lit::Str(text)) => match grammar::parse(&text.value()) {
            Ok(micros) if micros <= MAX_LEASE_MICROS => return Ok(Lease { micros, span: text.span() }),
            Ok(_) => format!(
                "`lease` must be at most 10 s, found {:?}; write for example `{example}`",
                text.value()
            ),
            Err(fault) => message(&fault, example),
        },
        Some(Lit::Int(integer)) => {
            let unit = if integer.suffix().is_empty() { "ms" } else { integer.suffix() };
            let meant = format!("{}{unit}", integer.base10_digits());
            let is_lease = grammar::parse(&meant).is_ok_and(|micros| micros <= MAX_LEASE_MICROS);
            let meant = if is_lease { format!("lease = \"{meant}\"") } else { example.to_owned() };
            format!("`lease` takes a string, not an integer; did you mean `{meant}`?")
        }
        _ => {
            format!("`lease` takes a string literal, not {}; write for example `{example}`", describe(&value))
        }
    };
    Err(diagnostics.error(value, fault))
}

/// The fault, and the argument that was probably meant.
fn message(Fault { text, meant }: &Fault, example: &str) -> String {
    // The grammar is that of a window, which most of its messages name.
    let text = text.replacen("`window`", "`lease`", 1);
    match meant {
        Some(meant) if grammar::parse(meant).is_ok_and(|micros| micros <= MAX_LEASE_MICROS) => {
            format!("{text}; did you mean `lease = \"{meant}\"`?")
        }
        _ => format!("{text}: {EXPECTED}, such as `{example}`"),
    }
}
