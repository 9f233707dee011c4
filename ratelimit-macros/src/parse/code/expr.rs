//! Helpers for reading expressions.

use syn::{Expr, Lit, LitStr};

use crate::parse::usage::Usage;

/// Removes the invisible delimiters of a macro's `$value`.
pub(crate) fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        other => other,
    }
}

pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}

/// The string in the value of an argument, or the fault.
pub(crate) fn expect_str<'a>(
    Usage { name, example, .. }: &Usage,
    value: &'a Expr,
) -> Result<&'a LitStr, String> {
    match literal(value) {
        Some(Lit::Str(text)) => Ok(text),
        _ => Err(format!(
            "`{name}` takes a string literal, not {}; write for example `{example}`",
            describe(value)
        )),
    }
}

/// The last segment of a path.
pub(crate) fn word(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

pub(crate) fn describe(value: &Expr) -> &'static str {
    match value {
        Expr::Lit(literal) => describe_literal(&literal.lit),
        Expr::Closure(_) => "a closure",
        Expr::Path(_) => "a path",
        Expr::Call(_) | Expr::MethodCall(_) => "a call",
        Expr::Macro(_) => "a macro",
        Expr::Tuple(_) => "a tuple",
        Expr::Array(_) => "an array",
        Expr::Async(_) => "an async block",
        Expr::Assign(_) => "an assignment",
        _ => "an expression",
    }
}

pub(crate) fn describe_literal(literal: &Lit) -> &'static str {
    match literal {
        Lit::Str(_) => "a string",
        Lit::ByteStr(_) => "a byte string",
        Lit::CStr(_) => "a C string",
        Lit::Byte(_) => "a byte",
        Lit::Char(_) => "a character",
        Lit::Int(_) => "an integer",
        Lit::Float(_) => "a float",
        Lit::Bool(_) => "a boolean",
        _ => "this literal",
    }
}
