//! Arguments with one of a few strings as value.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprPath, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{describe, literal, word};
use crate::parse::code::request_fn;
use crate::parse::code::tokens::{has_word, path_text};
use crate::parse::suggest::{list, nearest};

/// How a value is written.
#[derive(Clone, Copy)]
pub(crate) struct Spelling {
    /// The name in the attribute.
    pub(crate) name: &'static str,
    /// The variant of the facade's type.
    pub(crate) variant: &'static str,
    /// Other names for it, in lower case and without underscores.
    pub(crate) aliases: &'static [&'static str],
}

/// A name of other rate limiters that means no single value here: the name, its aliases, and the advice.
pub(crate) type Related = (&'static str, &'static [&'static str], &'static str);

/// The value of an argument that takes one of a few strings. Messages and the setter in the expansion are
/// made from it.
pub(crate) trait Choice: Copy + 'static {
    /// The name of the argument, and of the setter.
    const ARGUMENT: &'static str;
    /// The facade's type.
    const TYPE: &'static str;
    const RELATED: &'static [Related] = &[];
    /// The value without the argument.
    #[cfg(test)]
    const DEFAULT: Self;

    fn all() -> impl Iterator<Item = Self>;

    fn spelling(self) -> Spelling;

    /// What the message calls a text that is no value.
    fn unknown(text: &str) -> String {
        format!("unknown value {text:?} for `{}`", Self::ARGUMENT)
    }
}

/// Defines enums with their [`Choice`], from the argument of each, and name and aliases of each value. The
/// first is the default.
macro_rules! choices {
    ($($(#[$doc:meta])* $type:ident $argument:literal { $($variant:ident = $name:literal, [$($alias:literal),*];)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $type {
            $($variant),+
        }

        impl Choice for $type {
            const ARGUMENT: &'static str = $argument;
            const TYPE: &'static str = stringify!($type);
            #[cfg(test)]
            const DEFAULT: Self = [$(Self::$variant),+][0];

            fn all() -> impl Iterator<Item = Self> {
                [$(Self::$variant),+].into_iter()
            }

            fn spelling(self) -> Spelling {
                match self {
                    $(Self::$variant => {
                        Spelling { name: $name, variant: stringify!($variant), aliases: &[$($alias),*] }
                    })+
                }
            }
        }
    )+};
}

choices! {
    /// The handling of a request without a caller.
    OnMissing "on_missing" {
        Reject = "reject", ["deny", "error", "fail", "400", "badrequest"];
        Skip = "skip", ["ignore", "pass", "allow"];
        Anonymous = "anonymous", ["shared", "global", "anyone", "all", "one"];
    }

    /// The handling of requests while the store is unavailable.
    OnError "on_error" {
        Local = "local", ["memory", "fallback", "inprocess", "inmemory", "insurance"];
        Deny = "deny", ["reject", "closed", "failclosed", "error", "503"];
        Allow = "allow", ["pass", "open", "failopen", "skip", "ignore"];
    }

    /// Whether a limit denies requests.
    Mode "mode" {
        Enforce = "enforce", ["enforced", "enforcing", "on", "active", "live", "deny", "reject", "strict"];
        Shadow = "shadow", [
            "dryrun", "dry", "test", "report", "reportonly", "log", "logonly", "observe", "monitor", "audit", "permissive"
        ];
    }

    /// The responses that count, by name.
    Count "count" {
        All = "all", ["any", "everything", "both"];
        Failures = "failures", ["failed", "fail", "errors", "error", "failure"];
        Successes = "successes", ["successful", "success", "ok", "succeeded"];
    }

    /// When a request is charged, if some responses do not count.
    ChargeTime "charge" {
        Before = "before", ["first", "ahead", "strict", "request", "onrequest"];
        After = "after", ["later", "afterwards", "response", "onresponse", "lazy"];
    }

    /// The responses that show the limit.
    Show "show" {
        Always = "always", ["all", "yes", "on", "true", "everywhere"];
        Denied = "denied", ["deny", "denial", "onlydenied", "no", "off", "false", "never", "429"];
    }
}

/// The responses that count.
pub(crate) enum Responses {
    Named(Count),
    /// A closure over the status.
    Closure(TokenStream),
    /// A function over the status.
    Function(ExprPath),
}

/// Reads the value of `count`.
pub(crate) fn responses(value: Expr, diagnostics: &mut Diagnostics) -> Result<Responses, Reported> {
    let fault = match (&value, status_of(&value)) {
        (Expr::Closure(closure), _) if closure.inputs.len() != 1 || closure.asyncness.is_some() => {
            "`count` takes a closure over the status of the response: write `|status: StatusCode| ..`"
                .to_owned()
        }
        (Expr::Closure(_), _) => return Ok(Responses::Closure(value.into_token_stream())),
        (Expr::Call(call), _) if request_fn::is_with(call) => {
            return request_fn::with("count", call, diagnostics).map(Responses::Function);
        }
        (_, Some(status)) => {
            format!("`count` takes a closure for a status: write `count = |status: StatusCode| {status}`")
        }
        (_, None) => {
            let others = ", or a closure such as `|status: StatusCode| status == 401`";
            return read_or(value, others, diagnostics).map(Responses::Named);
        }
    };
    Err(diagnostics.error(value, fault))
}

/// The condition that was probably meant by `401`, `"401"`, `"4xx"` or `StatusCode::UNAUTHORIZED`.
fn status_of(value: &Expr) -> Option<String> {
    let text = match value {
        Expr::Path(path) if has_word(path.to_token_stream(), &["StatusCode"]) => {
            return Some(format!("status == {}", path_text(path)));
        }
        other => match literal(other)? {
            Lit::Int(status) => status.base10_digits().to_owned(),
            Lit::Str(text) => text.value().to_lowercase(),
            _ => return None,
        },
    };
    match (text.as_str(), text.parse::<u16>()) {
        ("4xx", _) => Some("status.is_client_error()".to_owned()),
        ("5xx", _) => Some("status.is_server_error()".to_owned()),
        (_, Ok(status @ 100..600)) => Some(format!("status == {status}")),
        _ => None,
    }
}

/// Reads one of the values.
pub(crate) fn read<T: Choice>(value: Expr, diagnostics: &mut Diagnostics) -> Result<T, Reported> {
    read_or(value, "", diagnostics)
}

/// Reads one of the values. `others`: what else the argument takes, for the message.
fn read_or<T: Choice>(value: Expr, others: &str, diagnostics: &mut Diagnostics) -> Result<T, Reported> {
    let argument = T::ARGUMENT;
    let fault = match (literal(&value), word(&value)) {
        (Some(Lit::Str(text)), _) => {
            let text = text.value();
            if let Some(found) = T::all().find(|choice| choice.spelling().name == text) {
                return Ok(found);
            }
            format!("{}{}", T::unknown(&text), meant::<T>(&text))
        }
        (_, Some(word)) => format!("`{argument}` takes a string{}", meant::<T>(&word)),
        _ => format!("`{argument}` takes a string, not {}", describe(&value)),
    };
    let expected = list(T::all().map(|choice| choice.spelling().name), '"');
    Err(diagnostics.error(value, format!("{fault}\nexpected one of: {expected}{others}")))
}

/// The suggestion for another name or spelling.
fn meant<T: Choice>(text: &str) -> String {
    let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let names = || T::all().map(|choice| choice.spelling().name);
    let related = T::RELATED.iter().find(|(_, aliases, _)| aliases.contains(&plain.as_str()));
    let alias = T::all().map(Choice::spelling).find(|spelling| spelling.aliases.contains(&plain.as_str()));
    let name = related
        .map(|(name, ..)| *name)
        .or(alias.map(|spelling| spelling.name))
        .or_else(|| names().find(|name| name.replace('_', "") == plain))
        .or_else(|| nearest(text, names().chain(T::RELATED.iter().map(|(name, ..)| *name))));
    let Some(name) = name else { return String::new() };
    match T::RELATED.iter().find(|(related, ..)| *related == name) {
        Some((_, _, advice)) => (*advice).to_owned(),
        None => format!("; did you mean `{} = \"{name}\"`?", T::ARGUMENT),
    }
}
