//! Numbers: integers, const expressions, and numbers that are chosen per request.

use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{BinOp, Expr, Lit, Stmt, UnOp};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{describe, describe_literal};
use crate::parse::code::request_fn::{self, RequestFn};
use crate::parse::code::tokens::{code_text, has_word, path_text};
use crate::parse::usage::Usage;
use crate::parse::values::bounds::UNITS;
use crate::parse::values::path::is_constant;
use crate::parse::values::window::arguments_of_rate;

/// A whole number: a literal, an expression that the compiler evaluates, or code that chooses it per request.
pub(crate) enum Number {
    Literal { value: u64, span: Span },
    Constant(TokenStream),
    PerRequest(RequestFn),
}

impl Number {
    /// The value of a literal.
    pub(crate) fn literal(&self) -> Option<u64> {
        if let Self::Literal { value, .. } = self { Some(*value) } else { None }
    }

    /// The code that chooses the number per request.
    pub(crate) fn per_request(&self) -> Option<&RequestFn> {
        if let Self::PerRequest(function) = self { Some(function) } else { None }
    }
}

/// Reads an integer or a const expression.
pub(crate) fn number(
    usage: &Usage,
    value: Expr,
    bounds: RangeInclusive<u64>,
    diagnostics: &mut Diagnostics,
) -> Result<Number, Reported> {
    let name = usage.name;
    let example = format!("write for example `{}`", usage.example);
    let bounded = format!("`{name}` must be from {} to {}", bounds.start(), bounds.end());
    let fault = match &value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(integer) => match integer.base10_parse::<u64>() {
                _ if !is_integer_suffix(integer.suffix()) => {
                    let zeros = match integer.suffix() {
                        "k" | "K" => "_000",
                        "m" | "M" => "_000_000",
                        _ => "",
                    };
                    format!(
                        "`{name}` takes an integer, found `{integer}`; did you mean `{name} = {}{zeros}`?",
                        integer.base10_digits()
                    )
                }
                Ok(value) if bounds.contains(&value) => {
                    return Ok(Number::Literal { value, span: integer.span() });
                }
                _ => format!("{bounded}, found {}; {example}", integer.base10_digits()),
            },
            Lit::Str(text) if text.value().parse::<u64>().is_ok_and(|number| bounds.contains(&number)) => {
                format!("`{name}` takes an integer, not a string; did you mean `{name} = {}`?", text.value())
            }
            Lit::Float(float) => format!("`{name}` takes a whole number, found {float}; {example}"),
            other => format!("`{name}` takes an integer, not {}; {example}", describe_literal(other)),
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) && matches!(*unary.expr, Expr::Lit(_)) => {
            format!("{bounded}, found {}; {example}", value.to_token_stream().to_string().replace(' ', ""))
        }
        Expr::Closure(_) | Expr::Async(_) | Expr::Assign(_) => {
            format!("`{name}` takes an integer or a const expression, not {}; {example}", describe(&value))
        }
        Expr::Field(_) if is_field_of_path(&value) => {
            let found = code_text(&value);
            // Overrides have no `sub_windows`.
            let overrides = if name == "burst" {
                format!("; overrides replace it when the program starts: `Settings::new().burst({found})`")
            } else {
                String::new()
            };
            format!(
                "`{name}` takes a number that is known when the program is built; for the field of a const write \
                 `{name} = {{ {found} }}`{overrides}"
            )
        }
        // Without the braces, which the compiler would call unnecessary in the expansion.
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => {
            return Ok(Number::Constant(match &block.block.stmts[..] {
                [Stmt::Expr(inner, None)] => inner.to_token_stream(),
                _ => value.to_token_stream(),
            }));
        }
        _ => return Ok(Number::Constant(value.into_token_stream())),
    };
    Err(diagnostics.error(value, fault))
}

/// Returns true for `CONFIG.max`, nearly always a configuration. The compiler cannot read it, and its advice
/// to wrap it in a `LazyLock` does not help.
fn is_field_of_path(value: &Expr) -> bool {
    match value {
        Expr::Field(field) => matches!(&*field.base, Expr::Path(_)) || is_field_of_path(&field.base),
        _ => false,
    }
}

fn is_integer_suffix(suffix: &str) -> bool {
    let widths = ["8", "16", "32", "64", "128", "size"];
    suffix.is_empty() || suffix.strip_prefix(['u', 'i']).is_some_and(|width| widths.contains(&width))
}

/// Reads an integer, a const expression, or code that runs per request.
pub(crate) fn units(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Number, Reported> {
    let name = usage.name;
    if let Some(function) = request_fn::read(name, &value, diagnostics) {
        return function.map(Number::PerRequest);
    }
    let fault = match (&value, rate_of(&value)) {
        (_, Some(rate)) => {
            let found = value.to_token_stream().to_string().replace(' ', "");
            format!("`{found}` is a rate, of which each part is an argument: write `{rate}`")
        }
        // The compiler would expect a `u64`, and advise to call the function.
        (Expr::Path(path), _) if !is_constant(path) => {
            let path = path_text(path);
            format!(
                "`{name}` takes an integer or a const expression, and `{path}` is named like a function; did you mean \
                 `{name} = with({path})`? A const of this name is `{name} = {{ {path} }}`"
            )
        }
        (Expr::Field(_), _) if is_field_of_path(&value) => {
            let found = code_text(&value);
            format!(
                "`{name}` takes a number that is known when the program is built; for one that is known when it starts write \
                 `{name} = || {found}`, and for the field of a const `{name} = {{ {found} }}`"
            )
        }
        // No const expression parses a text or reads the environment.
        (Expr::MethodCall(_), _) if has_word(value.to_token_stream(), &["parse"]) => format!(
            "`{name}` takes a number that is known when the program is built; for one that is known when it starts write \
             `{name} = || CONFIG.{name}`, where `CONFIG` is a `LazyLock`, or give the policy other numbers by overrides"
        ),
        _ => return number(usage, value, UNITS, diagnostics),
    };
    Err(diagnostics.error(value, fault))
}

/// The arguments for `10 / min`, where `min` is no constant.
fn rate_of(value: &Expr) -> Option<String> {
    let Expr::Binary(binary) = value else { return None };
    match (&binary.op, &*binary.left, &*binary.right) {
        (BinOp::Div(_), Expr::Lit(_), Expr::Path(unit)) if !is_constant(unit) => {
            arguments_of_rate(&value.to_token_stream().to_string())
        }
        _ => None,
    }
}
