//! Arguments with one of a few strings as value: `on_missing`, `on_error`, `mode` and `count`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped, word};
use crate::parse::request_fn;
use crate::suggest::{list, nearest};

/// The handling of a request without a caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMissing {
    Reject,
    Skip,
    Anonymous,
}

/// The handling of requests while the store is unavailable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    Local,
    Deny,
    Allow,
}

/// Whether a limit denies requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Enforce,
    Shadow,
}

/// The responses that count.
pub(crate) enum Count {
    All,
    Failures,
    Successes,
    /// A closure over the status.
    Closure(TokenStream),
    /// A function over the status.
    Function(TokenStream),
}

/// Reads the value of `on_missing`.
pub(crate) fn on_missing(value: Expr, diagnostics: &mut Diagnostics) -> Result<OnMissing, Reported> {
    const ALL: [(&str, OnMissing); 3] =
        [("reject", OnMissing::Reject), ("skip", OnMissing::Skip), ("anonymous", OnMissing::Anonymous)];
    const ALIASES: [(&str, &[&str]); 3] = [
        ("reject", &["deny", "error", "fail", "400", "badrequest"]),
        ("skip", &["ignore", "pass", "allow"]),
        ("anonymous", &["shared", "global", "anyone", "all", "one"]),
    ];
    choice("on_missing", &ALL, &ALIASES, value, diagnostics)
}

/// Reads the value of `on_error`.
pub(crate) fn on_error(value: Expr, diagnostics: &mut Diagnostics) -> Result<OnError, Reported> {
    const ALL: [(&str, OnError); 3] =
        [("local", OnError::Local), ("deny", OnError::Deny), ("allow", OnError::Allow)];
    const ALIASES: [(&str, &[&str]); 3] = [
        ("local", &["memory", "fallback", "inprocess", "inmemory", "insurance"]),
        ("deny", &["reject", "closed", "failclosed", "error", "503"]),
        ("allow", &["pass", "open", "failopen", "skip", "ignore"]),
    ];
    choice("on_error", &ALL, &ALIASES, value, diagnostics)
}

/// Reads the value of `mode`.
pub(crate) fn mode(value: Expr, diagnostics: &mut Diagnostics) -> Result<Mode, Reported> {
    const ALL: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
    const ALIASES: [(&str, &[&str]); 2] = [
        ("enforce", &["enforced", "enforcing", "on", "active", "live", "deny", "reject", "strict"]),
        (
            "shadow",
            &[
                "dryrun",
                "dry",
                "test",
                "report",
                "reportonly",
                "log",
                "logonly",
                "observe",
                "monitor",
                "audit",
                "permissive",
            ],
        ),
    ];
    choice("mode", &ALL, &ALIASES, value, diagnostics)
}

/// Reads the value of `count`.
pub(crate) fn count(value: Expr, diagnostics: &mut Diagnostics) -> Result<Count, Reported> {
    const ALL: [(&str, ()); 3] = [("all", ()), ("failures", ()), ("successes", ())];
    const ALIASES: [(&str, &[&str]); 3] = [
        ("all", &["any", "everything", "both"]),
        ("failures", &["failed", "fail", "errors", "error", "failure"]),
        ("successes", &["successful", "success", "ok", "succeeded"]),
    ];
    let value = ungrouped(value);
    match &value {
        Expr::Closure(closure) if closure.inputs.len() != 1 || closure.asyncness.is_some() => {
            Err(diagnostics.error(
                value,
                "`count` takes a closure over the status of the response: write `|status: StatusCode| ..`",
            ))
        }
        Expr::Closure(_) => Ok(Count::Closure(value.into_token_stream())),
        Expr::Call(call) if matches!(&*call.func, Expr::Path(path) if path.path.is_ident("with")) => {
            request_fn::with("count", call, diagnostics).map(|path| Count::Function(path.into_token_stream()))
        }
        _ => {
            let text = match literal(&value) {
                Some(Lit::Str(text)) => text.value(),
                _ => String::new(),
            };
            choice("count", &ALL, &ALIASES, value, diagnostics).map(|()| match text.as_str() {
                "failures" => Count::Failures,
                "successes" => Count::Successes,
                _ => Count::All,
            })
        }
    }
}

/// Reads one of the strings in `all`.
fn choice<T: Copy>(
    name: &str,
    all: &[(&'static str, T)],
    aliases: &[(&'static str, &[&str])],
    value: Expr,
    diagnostics: &mut Diagnostics,
) -> Result<T, Reported> {
    let value = ungrouped(value);
    let words = || all.iter().map(|(word, _)| *word);
    let meant = |text: &str| {
        let plain: String =
            text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let alias =
            aliases.iter().find(|(_, others)| others.contains(&plain.as_str())).map(|(word, _)| *word);
        match alias.or_else(|| nearest(&plain, words())) {
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
