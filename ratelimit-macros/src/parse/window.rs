//! The value of `window`.

pub(crate) mod grammar;

use proc_macro2::Span;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped};
use crate::parse::window::grammar::{EXPECTED, Fault};

/// The length of a window.
pub(crate) struct Window {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// Reads a window such as `"60s"`.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<Window, Reported> {
    let value = ungrouped(value);
    let fault = match literal(&value) {
        Some(Lit::Str(text)) => match grammar::parse(&text.value()) {
            Ok(micros) => {
                return Ok(Window { micros, span: text.span() });
            }
            Err(fault) => message(&fault),
        },
        Some(Lit::Int(integer)) => {
            let unit = if integer.suffix().is_empty() { "s" } else { integer.suffix() };
            let meant = format!("{}{unit}", integer.base10_digits());
            let meant = if grammar::parse(&meant).is_ok() { &meant } else { "60s" };
            format!("`window` takes a string, not an integer; did you mean `window = \"{meant}\"`?")
        }
        _ => format!(
            "`window` takes a string literal, not {}; write for example `window = \"60s\"`",
            describe(&value)
        ),
    };
    Err(diagnostics.error(value, fault))
}

/// The fault, and the argument that was probably meant.
pub(crate) fn message(Fault { text, meant }: &Fault) -> String {
    match meant {
        Some(meant) => format!("{text}; did you mean `window = \"{meant}\"`?"),
        None => format!("{text}: {EXPECTED}, such as `window = \"60s\"`"),
    }
}
