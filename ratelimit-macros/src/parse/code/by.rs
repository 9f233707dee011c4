//! The value of `by`: the caller as a word, call, function, closure or tuple of these.

use std::slice;

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Expr, ExprCall, ExprPath, ExprTuple, Lit, LitStr};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{describe, literal, ungrouped};
use crate::parse::code::request_fn::{self, Closure};
use crate::parse::code::tokens::{code_text, path_text};
use crate::parse::suggest::nearest;
use crate::parse::values::template::{self, Placeholder};

/// The definition of the caller.
pub(crate) enum By {
    Ip,
    Global,
    /// The result of the facade's function of this name.
    Facade(&'static str),
    /// A parameter of the path.
    Path(Parameter),
    /// A header field, in lower case.
    Header(String),
    /// A `fn(&HttpRequest) -> K`.
    Function(ExprPath),
    Closure(Closure),
    /// A tuple of these.
    Parts(Vec<By>),
}

/// A path parameter.
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// The place of `{id}`, which is an error if a route in view does not have it. `path("id")` and
    /// `{path:id}` may be of a scope.
    pub(crate) checked_at: Option<Span>,
}

impl By {
    /// Reads the value of `by`.
    pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<Self, Reported> {
        match value {
            Expr::Tuple(tuple) => read_tuple(tuple, diagnostics),
            other => read_single(other, diagnostics),
        }
    }

    /// The caller that the placeholders of a key define.
    pub(crate) fn from_template(parts: Vec<Placeholder>, span: Span) -> Option<Self> {
        let mut parts: Vec<Self> = parts
            .into_iter()
            .map(|part| match part {
                Placeholder::Ip => Self::Ip,
                Placeholder::Header(name) => Self::Header(name),
                Placeholder::Path { name, checked } => {
                    Self::Path(Parameter { name, checked_at: checked.then_some(span) })
                }
            })
            .collect();
        if parts.len() > 1 { Some(Self::Parts(parts)) } else { parts.pop() }
    }

    /// The parts of a tuple, which contains no other tuple, or the caller itself.
    pub(crate) fn parts(&self) -> &[Self] {
        if let Self::Parts(parts) = self { parts } else { slice::from_ref(self) }
    }

    /// Returns true if the caller is known without an `await`.
    pub(crate) fn is_immediate(&self) -> bool {
        !self.parts().iter().any(|part| matches!(part, Self::Closure(closure) if !closure.is_immediate()))
    }

    /// The caller as it is written in the attribute.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Ip => "ip".to_owned(),
            Self::Global => "global".to_owned(),
            Self::Facade(word) => (*word).to_owned(),
            Self::Path(parameter) => format!("path({:?})", parameter.name),
            Self::Header(name) => format!("header({name:?})"),
            Self::Function(path) => path_text(path),
            Self::Closure(closure) => code_text(&closure.tokens),
            Self::Parts(parts) => {
                let parts: Vec<String> = parts.iter().map(Self::text).collect();
                if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) }
            }
        }
    }
}

/// Functions of the facade whose names are words of `by`.
const FACADE: [&str; 2] = ["principal", "principal_or_ip"];

const EXPECTED: &str = "`by` takes `ip`, `global`, `path(\"id\")`, `header(\"x-api-key\")`, the path of a \
                        `fn(&HttpRequest) -> K`, a closure, or a tuple of these";

/// Other words for `ip` and `global`, which are not similar to them.
const IP_ALIASES: [&str; 9] =
    ["ipp", "ips", "ip_addr", "ipaddr", "ip_address", "peer_ip", "remote_ip", "addr", "address"];
const GLOBAL_ALIASES: [&str; 5] = ["everyone", "all", "none", "shared", "any"];

fn read_single(value: Expr, diagnostics: &mut Diagnostics) -> Result<By, Reported> {
    let fault = match &value {
        Expr::Path(path) => match path.path.get_ident().map(ToString::to_string).as_deref() {
            Some("ip") => return Ok(By::Ip),
            Some("global") => return Ok(By::Global),
            Some(word) => match (FACADE.into_iter().find(|known| *known == word), misspelled_help(word)) {
                (Some(known), _) => return Ok(By::Facade(known)),
                (None, None) => return Ok(By::Function(path.clone())),
                (None, Some(help)) => help,
            },
            None => return Ok(By::Function(path.clone())),
        },
        Expr::Closure(closure) => return request_fn::closure("by", closure, diagnostics).map(By::Closure),
        Expr::Call(call) => return read_call(call, diagnostics),
        Expr::Tuple(_) => {
            "a tuple in a tuple is the same as one tuple; remove the inner parentheses".to_owned()
        }
        _ => match literal(&value) {
            Some(Lit::Str(text)) => quoted_help(&text.value()),
            _ => format!("{EXPECTED}, not {}", describe(&value)),
        },
    };
    Err(diagnostics.error(value, fault))
}

/// The message about a word that is unlikely to be a function's name.
fn misspelled_help(word: &str) -> Option<String> {
    let function = format!("`by = self::{word}` for a function of that name");
    match word {
        "path" => {
            Some(format!("`path` needs the name of a parameter: write `by = path(\"id\")`, or {function}"))
        }
        "header" => Some(format!(
            "`header` needs the name of a field: write `by = header(\"x-api-key\")`, or {function}"
        )),
        _ if IP_ALIASES.contains(&word) => {
            Some(format!("unknown caller `{word}`; did you mean `by = ip`, or {function}?"))
        }
        _ if GLOBAL_ALIASES.contains(&word) || nearest(word, ["global"]).is_some() => {
            Some(format!("unknown caller `{word}`; did you mean `by = global`, or {function}?"))
        }
        _ => None,
    }
}

/// The message about a string.
fn quoted_help(text: &str) -> String {
    let meant = match text.split_once([':', '=']) {
        Some(("header", name)) => format!("; did you mean `by = header({name:?})`?"),
        Some(("path", name)) => format!("; did you mean `by = path({name:?})`?"),
        _ if template::is_template(text) => {
            format!(", not a template; placeholders belong in the key: did you mean `key = {text:?}`?")
        }
        _ if syn::parse_str::<syn::Path>(text).is_ok() => {
            format!(", without quotes; did you mean `by = {text}`?")
        }
        _ => ", not a string".to_owned(),
    };
    format!("{EXPECTED}{meant}")
}

fn read_call(call: &ExprCall, diagnostics: &mut Diagnostics) -> Result<By, Reported> {
    let word = match &*call.func {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    };
    let first = call.args.first().cloned().map(ungrouped);
    let text = match first.as_ref().and_then(literal) {
        Some(Lit::Str(text)) if call.args.len() == 1 => Some(text),
        _ => None,
    };
    let fault = match (word.as_deref(), text) {
        (Some("path"), Some(text)) => match text.value() {
            name if name.is_empty() || name.contains(['{', '}']) => {
                let plain = name.trim_matches(['{', '}']);
                let plain = if plain.is_empty() { "id" } else { plain };
                format!("`path` takes the name of a parameter; write for example `path({plain:?})`")
            }
            name => return Ok(By::Path(Parameter { name, checked_at: None })),
        },
        (Some("header"), Some(text)) => match template::header(&text.value()) {
            Ok(name) => return Ok(By::Header(name)),
            Err(fault) => fault,
        },
        (Some(word @ ("path" | "header")), _) => {
            let example = if word == "path" { "path(\"id\")" } else { "header(\"x-api-key\")" };
            format!("`{word}` takes one string literal: write for example `by = {example}`")
        }
        (Some(word @ ("ip" | "global")), _) => format!("`{word}` takes no arguments: write `by = {word}`"),
        (Some("with"), _) => {
            "a function of `&HttpRequest` needs no `with` here: write its path, such as `by = caller`; for one over \
             extractors write a closure, such as `by = |user: User| caller(user)`"
                .to_owned()
        }
        (Some("cookie"), _) => {
            let name = text.map_or_else(|| "sid".to_owned(), LitStr::value);
            format!(
                "a closure reads a cookie: write `by = |req: &HttpRequest| req.cookie({name:?}).map(|cookie| \
                 cookie.value().to_owned())`; it is not verified, so a client that invents cookies invents quotas"
            )
        }
        (Some("form" | "field" | "json" | "body" | "multipart"), _) => {
            "`by` is decided before the body is read: for a name in the body call `limiter.check` in the handler, as in the \
             recipe \"Log-in with a form\"; for a value in the head write a closure, such as \
             `by = |user: ReqData<User>| user.id`"
                .to_owned()
        }
        (Some("session"), _) => {
            let name = text.map_or_else(|| "user".to_owned(), LitStr::value);
            format!(
                "a closure reads a session: write `by = |session: Session| session.get::<String>({name:?}).ok().flatten()`"
            )
        }
        (Some(word), _) => match nearest(word, ["path", "header", "ip", "global"]) {
            Some(meant @ ("path" | "header")) => {
                let name = text.map_or_else(|| "..".to_owned(), |text| format!("{:?}", text.value()));
                format!("unknown caller `{word}`; did you mean `by = {meant}({name})`?")
            }
            Some(meant) => format!("unknown caller `{word}`; did you mean `by = {meant}`?"),
            None => {
                format!(
                    "{EXPECTED}, not a call; name the function without calling it, such as `by = {word}`, or call it in a \
                     closure, such as `by = |req: &HttpRequest| {word}(req)`"
                )
            }
        },
        (None, _) => format!("{EXPECTED}, not a call"),
    };
    Err(diagnostics.error(call, fault))
}

fn read_tuple(tuple: ExprTuple, diagnostics: &mut Diagnostics) -> Result<By, Reported> {
    if tuple.elems.is_empty() {
        let message = "an empty tuple names no caller; write `by = global` for one count of all callers";
        return Err(diagnostics.error(tuple, message));
    }
    let read = |part: Expr| {
        let tokens = part.to_token_stream();
        let help = "`global` does not distinguish callers, so it has no effect in a tuple; remove it";
        match read_single(part, diagnostics)? {
            By::Global => Err(diagnostics.error(tokens, help)),
            part => Ok(part),
        }
    };
    let parts: Vec<Result<By, Reported>> = tuple.elems.into_iter().map(ungrouped).map(read).collect();
    parts.into_iter().collect::<Result<_, _>>().map(By::Parts)
}
