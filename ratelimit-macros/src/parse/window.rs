//! The values of `window` and `block`.

pub(crate) mod grammar;

use proc_macro2::Span;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped};
use crate::parse::window::grammar::{EXPECTED, Fault};

/// The length of a window or of a block.
pub(crate) struct Window {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// Reads a time such as `"60s"`. `example` is a value of the argument `name`.
pub(crate) fn read(
    name: &str,
    example: &str,
    value: Expr,
    diagnostics: &mut Diagnostics,
) -> Result<Window, Reported> {
    let value = ungrouped(value);
    let fault = match literal(&value) {
        Some(Lit::Str(text)) => match grammar::parse(&text.value()) {
            Ok(micros) => {
                return Ok(Window { micros, span: text.span() });
            }
            Err(fault) => message(name, example, &fault),
        },
        Some(Lit::Int(integer)) => {
            let unit = if integer.suffix().is_empty() { "s" } else { integer.suffix() };
            let meant = format!("{}{unit}", integer.base10_digits());
            let meant = if grammar::parse(&meant).is_ok() {
                format!("{name} = \"{meant}\"")
            } else {
                example.to_owned()
            };
            format!("`{name}` takes a string, not an integer; did you mean `{meant}`?")
        }
        _ => {
            format!(
                "`{name}` takes a string literal, not {}; write for example `{example}`",
                describe(&value)
            )
        }
    };
    Err(diagnostics.error(value, fault))
}

/// The fault, and the argument that was probably meant.
pub(crate) fn message(name: &str, example: &str, Fault { text, meant }: &Fault) -> String {
    // The grammar is that of a window, and begins most of its messages so.
    let text = text.strip_prefix("`window`").map_or_else(|| text.clone(), |rest| format!("`{name}`{rest}"));
    match meant {
        Some(meant) => format!("{text}; did you mean `{name} = \"{meant}\"`?"),
        None => format!("{text}: {EXPECTED}, such as `{example}`"),
    }
}
