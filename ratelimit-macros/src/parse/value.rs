//! The value of each argument: which expressions it accepts, and what to write instead of the others.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprPath, Lit};

use crate::diagnostics::{Diagnostics, Reported, list, nearest};
use crate::parse::request_fn::{self as source, Source};
use crate::parse::window;

/// The length of a window.
pub(crate) struct Window {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// What becomes of a request without a caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMissing {
    Reject,
    Skip,
    Anonymous,
}

/// What happens while the store cannot answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    Local,
    Deny,
    Allow,
}

/// Which answers count.
pub(crate) enum Count {
    All,
    Failures,
    Successes,
    /// A closure over the status.
    Closure(TokenStream),
    /// A function over the status.
    Function(TokenStream),
}

/// Reads code that says yes or no for each request.
pub(crate) fn skip(value: Expr, diagnostics: &mut Diagnostics) -> Result<Source, Reported> {
    let value = ungrouped(value);
    if let Some(source) = source::read("skip", &value, diagnostics) {
        return source;
    }
    let help = match &value {
        Expr::Path(path) => {
            let path = path.to_token_stream().to_string().replace(' ', "");
            format!("; did you mean `skip = with({path})`?")
        }
        Expr::Lit(literal) if matches!(literal.lit, Lit::Bool(_)) => {
            "; a limit that never holds is no limit, remove the attribute; one that always holds needs no `skip`"
                .to_owned()
        }
        _ => format!(", not {}", describe(&value)),
    };
    let fault =
        format!("`skip` takes a closure, such as `|req: &HttpRequest| ..`, or `with(function)`{help}");
    Err(diagnostics.error(value, fault))
}

/// Reads what becomes of a request without a caller.
pub(crate) fn on_missing(value: Expr, diagnostics: &mut Diagnostics) -> Result<OnMissing, Reported> {
    const ALL: [(&str, OnMissing); 3] =
        [("reject", OnMissing::Reject), ("skip", OnMissing::Skip), ("anonymous", OnMissing::Anonymous)];
    const HABITS: [(&str, &[&str]); 3] = [
        ("reject", &["deny", "error", "fail", "400", "badrequest"]),
        ("skip", &["ignore", "pass", "allow"]),
        ("anonymous", &["shared", "global", "anyone", "all", "one"]),
    ];
    choice("on_missing", &ALL, &HABITS, value, diagnostics)
}

/// Reads what happens while the store cannot answer.
pub(crate) fn on_error(value: Expr, diagnostics: &mut Diagnostics) -> Result<OnError, Reported> {
    const ALL: [(&str, OnError); 3] =
        [("local", OnError::Local), ("deny", OnError::Deny), ("allow", OnError::Allow)];
    const HABITS: [(&str, &[&str]); 3] = [
        ("local", &["memory", "fallback", "inprocess", "inmemory", "insurance"]),
        ("deny", &["reject", "closed", "failclosed", "error", "503"]),
        ("allow", &["pass", "open", "failopen", "skip", "ignore"]),
    ];
    choice("on_error", &ALL, &HABITS, value, diagnostics)
}

/// Reads which answers count.
pub(crate) fn count(value: Expr, diagnostics: &mut Diagnostics) -> Result<Count, Reported> {
    const ALL: [(&str, ()); 3] = [("all", ()), ("failures", ()), ("successes", ())];
    const HABITS: [(&str, &[&str]); 3] = [
        ("all", &["any", "everything", "both"]),
        ("failures", &["failed", "fail", "errors", "error", "failure"]),
        ("successes", &["successful", "success", "ok", "succeeded"]),
    ];
    let value = ungrouped(value);
    match &value {
        Expr::Closure(closure) if closure.inputs.len() != 1 || closure.asyncness.is_some() => {
            Err(diagnostics.error(
                value,
                "`count` takes a closure over the answer's status: write `|status: StatusCode| ..`",
            ))
        }
        Expr::Closure(_) => Ok(Count::Closure(value.into_token_stream())),
        Expr::Call(call) if matches!(&*call.func, Expr::Path(path) if path.path.is_ident("with")) => {
            source::with("count", call, diagnostics).map(|path| Count::Function(path.into_token_stream()))
        }
        _ => {
            let text = match literal(&value) {
                Some(Lit::Str(text)) => text.value(),
                _ => String::new(),
            };
            choice("count", &ALL, &HABITS, value, diagnostics).map(|()| match text.as_str() {
                "failures" => Count::Failures,
                "successes" => Count::Successes,
                _ => Count::All,
            })
        }
    }
}

/// Reads one of a few words in quotes.
fn choice<T: Copy>(
    name: &str,
    all: &[(&'static str, T)],
    habits: &[(&'static str, &[&str])],
    value: Expr,
    diagnostics: &mut Diagnostics,
) -> Result<T, Reported> {
    let value = ungrouped(value);
    let words = || all.iter().map(|(word, _)| *word);
    let meant = |text: &str| {
        let plain: String =
            text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let habit = habits.iter().find(|(_, others)| others.contains(&plain.as_str())).map(|(word, _)| *word);
        match habit.or_else(|| nearest(&plain, words())) {
            Some(word) => format!("; did you mean `{name} = \"{word}\"`?"),
            None => String::new(),
        }
    };
    let expected = list(words(), '"');
    let fault = match (literal(&value), word(&value)) {
        (Some(Lit::Str(text)), _) => {
            let text = text.value();
            if let Some((_, found)) = all.iter().find(|(word, _)| *word == text) {
                return Ok(*found);
            }
            format!("unknown value {text:?} for `{name}`{}\nexpected one of: {expected}", meant(&text))
        }
        (_, Some(word)) => format!("`{name}` takes a string{}\nexpected one of: {expected}", meant(&word)),
        _ => format!("`{name}` takes a string, not {}\nexpected one of: {expected}", describe(&value)),
    };
    Err(diagnostics.error(value, fault))
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

/// Reads the name that the handler's own function gets.
pub(crate) fn direct(value: Expr, diagnostics: &mut Diagnostics) -> Result<Ident, Reported> {
    let value = ungrouped(value);
    if let Expr::Path(path) = &value
        && let Some(name) = path.path.get_ident()
    {
        return Ok(name.clone());
    }
    let fault = match literal(&value) {
        Some(Lit::Str(text)) if syn::parse_str::<Ident>(&text.value()).is_ok() => {
            format!("`direct` takes a name without quotes; did you mean `direct = {}`?", text.value())
        }
        _ => format!(
            "`direct` takes a new name for the function, not {}; write for example `direct = user_body`",
            describe(&value)
        ),
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
                match syn::parse_str::<syn::Path>(path) {
                    Ok(_) => format!("`crate` takes a path without quotes; did you mean `crate = ::{path}`?"),
                    Err(_) => {
                        "`crate` takes a path, not a string; write for example `crate = ::ratelimit_actix`"
                            .to_owned()
                    }
                }
            }
            _ if matches!(value, Expr::Path(_)) => {
                "`crate` takes the path of a crate or module, without types; write for example \
                 `crate = ::ratelimit_actix`"
                    .to_owned()
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
