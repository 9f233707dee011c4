//! The value of each argument: which expressions it accepts, and what to write instead of the others.

use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprPath, Lit, UnOp};

use crate::diagnostics::{Diagnostics, Reported};
use crate::window;

/// Bounds of `max`, `burst` and `cost`.
pub(crate) const UNITS: RangeInclusive<u64> = 1..=1_000_000_000_000;

/// Bounds of `sub_windows`.
pub(crate) const SUB_WINDOWS: RangeInclusive<u64> = 1..=60;

/// Longest key or name, in bytes.
const MAX_NAME: usize = 64;

/// A whole number, known now or to the compiler later.
pub(crate) enum Number {
    Literal { value: u64, span: Span },
    Constant(TokenStream),
}

impl Number {
    /// The number, if it is known now.
    pub(crate) fn literal(&self) -> Option<u64> {
        match self {
            Self::Literal { value, .. } => Some(*value),
            Self::Constant(_) => None,
        }
    }
}

/// The length of a window.
pub(crate) struct Window {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// A key or the name of a policy.
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Who is limited.
pub(crate) enum By {
    Ip,
    Global,
    /// A `fn(&HttpRequest) -> K`.
    Function(ExprPath),
}

/// Reads an integer or a const expression.
pub(crate) fn number(
    name: &str,
    example: &str,
    value: Expr,
    bounds: RangeInclusive<u64>,
    diagnostics: &mut Diagnostics,
) -> Result<Number, Reported> {
    let value = ungrouped(value);
    let example = format!("write for example `{example}`");
    let bounded = format!("`{name}` must be from {} to {}", bounds.start(), bounds.end());
    let fault = match &value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(integer) => match integer.base10_parse::<u64>() {
                _ if !is_integer_suffix(integer.suffix()) => {
                    format!(
                        "`{name}` takes an integer, found `{integer}`; did you mean `{name} = {}`?",
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
        _ => return Ok(Number::Constant(value.into_token_stream())),
    };
    Err(diagnostics.error(value, fault))
}

fn is_integer_suffix(suffix: &str) -> bool {
    let widths = ["8", "16", "32", "64", "128", "size"];
    suffix.is_empty() || suffix.strip_prefix(['u', 'i']).is_some_and(|width| widths.contains(&width))
}

/// Reads a window such as `"60s"`.
pub(crate) fn window(value: Expr, diagnostics: &mut Diagnostics) -> Result<Window, Reported> {
    let value = ungrouped(value);
    let fault = match literal(&value) {
        Some(Lit::Str(text)) => match window::parse(&text.value()) {
            Ok(micros) => {
                return Ok(Window { micros, span: text.span() });
            }
            Err(fault) => fault,
        },
        Some(Lit::Int(integer)) => {
            let unit = if integer.suffix().is_empty() { "s" } else { integer.suffix() };
            let meant = format!("{}{unit}", integer.base10_digits());
            let meant = if window::parse(&meant).is_ok() { &meant } else { "60s" };
            format!("`window` takes a string, not an integer; did you mean `window = \"{meant}\"`?")
        }
        _ => format!(
            "`window` takes a string literal, not {}; write for example `window = \"60s\"`",
            describe(&value)
        ),
    };
    Err(diagnostics.error(value, fault))
}

/// Reads a key or a policy's name.
pub(crate) fn name(
    name: &str,
    example: &str,
    value: Expr,
    diagnostics: &mut Diagnostics,
) -> Result<Name, Reported> {
    let value = ungrouped(value);
    let fault = match (literal(&value), word(&value)) {
        (Some(Lit::Str(text)), _) => match name_fault(name, example, &text.value()) {
            None => {
                return Ok(Name { text: text.value(), span: text.span() });
            }
            Some(fault) => fault,
        },
        (_, Some(word)) => {
            format!("`{name}` takes a string literal; did you mean `{name} = \"{word}\"`?")
        }
        _ => format!(
            "`{name}` takes a string literal, not {}; write for example `{example}`",
            describe(&value)
        ),
    };
    Err(diagnostics.error(value, fault))
}

/// Why a text cannot be a key or a name: both go into stored keys and into quoted header fields.
fn name_fault(name: &str, example: &str, text: &str) -> Option<String> {
    let wrong = text.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '{' | '}' | '"' | '\\'));
    Some(match wrong {
        _ if text.is_empty() => {
            format!("`{name}` must not be empty: write for example `{example}`")
        }
        None if text.len() <= MAX_NAME => return None,
        None => format!("`{name}` must be at most {MAX_NAME} bytes long, found {}", text.len()),
        Some('{' | '}') => format!(
            "`{name}` must not contain braces, templates are not supported in this version: \
             write a plain name such as `{example}`, and choose the caller with `by`"
        ),
        Some(wrong) if wrong.is_whitespace() => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let joined = words.join("-");
            match name_fault(name, example, &joined) {
                None => format!("`{name}` must not contain blanks; did you mean `{name} = \"{joined}\"`?"),
                Some(_) => {
                    format!("`{name}` must not contain blanks: write for example `{example}`")
                }
            }
        }
        Some(wrong) => format!(
            "`{name}` takes printable ASCII without blanks, braces, quotes and backslashes, found {wrong:?}: \
             write for example `{example}`"
        ),
    })
}

/// Reads who is limited.
pub(crate) fn by(value: Expr, diagnostics: &mut Diagnostics) -> Result<By, Reported> {
    const EXPECTED: &str = "`by` takes `ip`, `global` or the path of a `fn(&HttpRequest) -> K`";
    let value = ungrouped(value);
    let fault = match value {
        Expr::Path(path) => {
            return Ok(match path.path.get_ident() {
                Some(word) if word == "ip" => By::Ip,
                Some(word) if word == "global" => By::Global,
                _ => By::Function(path),
            });
        }
        _ => match literal(&value) {
            Some(Lit::Str(text)) if syn::parse_str::<syn::Path>(&text.value()).is_ok() => {
                format!("{EXPECTED}, without quotes; did you mean `by = {}`?", text.value())
            }
            _ => format!(
                "{EXPECTED}, not {}; write a function and name it, such as `by = caller`",
                describe(&value)
            ),
        },
    };
    Err(diagnostics.error(value, fault))
}

/// Reads the path of the facade.
pub(crate) fn root(value: Expr, diagnostics: &mut Diagnostics) -> Result<ExprPath, Reported> {
    let value = ungrouped(value);
    let fault = match &value {
        Expr::Path(path) if path.qself.is_none() && is_plain(&path.path) => {
            let text = path.to_token_stream().to_string().replace(' ', "");
            let first =
                path.path.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
            match first.as_str() {
                _ if path.path.leading_colon.is_some() => None,
                "crate" | "$crate" => None,
                "self" | "super" => {
                    Some("write it from the root of this crate, such as `crate = crate::facade`".to_owned())
                }
                _ => Some(format!("did you mean `crate = ::{text}`, or `crate = crate::{text}`?")),
            }
            .map(|help| format!("`crate` takes an absolute path, found `{text}`; {help}"))
        }
        _ => Some(match literal(&value) {
            Some(Lit::Str(text)) => {
                let text = text.value();
                let path = text.trim_start_matches(':');
                format!("`crate` takes a path without quotes; did you mean `crate = ::{path}`?")
            }
            _ => format!(
                "`crate` takes a path, not {}; write for example `crate = ::ratelimit_actix`",
                describe(&value)
            ),
        }),
    };
    match (fault, value) {
        (None, Expr::Path(path)) => Ok(path),
        (fault, value) => Err(diagnostics.error(value, fault.unwrap_or_default())),
    }
}

fn is_plain(path: &syn::Path) -> bool {
    path.segments.iter().all(|segment| segment.arguments.is_none())
}

/// Without the invisible delimiters that a macro's `$value` comes in.
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

/// The last word of a path.
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

fn describe_literal(literal: &Lit) -> &'static str {
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
