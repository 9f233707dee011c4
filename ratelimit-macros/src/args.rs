//! The arguments of one attribute: each at most once, in any order, each value checked on its own.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Expr, ExprPath, Meta, Token};

use crate::algorithm::{self, Algorithm};
use crate::diagnostics::{Diagnostics, Reported, list, nearest};
use crate::value::{self, By, Name, Number, Window};

/// Every argument, and how one writes it.
const ARGUMENTS: [(&str, &str); 10] = [
    ("max", "max = 10"),
    ("window", "window = \"60s\""),
    ("key", "key = \"user-api\""),
    ("name", "name = \"hourly\""),
    ("by", "by = ip"),
    ("algorithm", "algorithm = \"token_bucket\""),
    ("sub_windows", "sub_windows = 6"),
    ("burst", "burst = 20"),
    ("cost", "cost = 5"),
    ("crate", "crate = ::ratelimit_actix"),
];

/// What other rate limiters call the same things, in lower case and without underscores.
const HABITS: [(&str, &[&str]); 7] = [
    ("max", &["maxrequests", "maxcalls", "limit", "requests", "permits", "rate"]),
    (
        "window",
        &["windowseconds", "windowsecs", "windowsize", "per", "period", "duration", "interval", "seconds"],
    ),
    ("key", &["id", "keyprefix", "prefix"]),
    ("algorithm", &["strategy", "type"]),
    ("cost", &["weight", "tokens"]),
    ("burst", &["capacity", "burstsize"]),
    ("by", &["user", "client", "keyfn", "keyby", "identity"]),
];

/// The arguments as given. What is wrong with them has been recorded.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) max: Option<Argument<Number>>,
    pub(crate) window: Option<Argument<Window>>,
    pub(crate) key: Option<Argument<Name>>,
    pub(crate) name: Option<Argument<Name>>,
    pub(crate) by: Option<Argument<By>>,
    pub(crate) algorithm: Option<Argument<Algorithm>>,
    pub(crate) sub_windows: Option<Argument<Number>>,
    pub(crate) burst: Option<Argument<Number>>,
    pub(crate) cost: Option<Argument<Number>>,
    pub(crate) root: Option<Argument<ExprPath>>,
}

/// An argument that was given, well or badly.
pub(crate) struct Argument<T> {
    pub(crate) keyword: Ident,
    pub(crate) value: Result<T, Reported>,
}

impl Args {
    /// Reads what stands between the parentheses.
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        let mut args = Self::default();
        let read = |input: ParseStream<'_>| {
            args.read(input, diagnostics);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            diagnostics.push(error);
        }
        args
    }

    /// Reads a further attribute on the same handler.
    pub(crate) fn of_attribute(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Self {
        match &attribute.meta {
            Meta::Path(_) => Self::default(),
            Meta::List(meta) => Self::parse(meta.tokens.clone(), diagnostics),
            Meta::NameValue(meta) => {
                let help = "arguments go in parentheses: write `#[rate_limit(max = 10, window = \"60s\")]`";
                diagnostics.error(meta, help);
                Self::default()
            }
        }
    }

    fn read(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let mut unnamed = Vec::new();
        while !input.is_empty() {
            if input.peek(Token![,]) {
                let comma = input.parse::<Token![,]>().ok();
                diagnostics.error(
                    comma,
                    "expected an argument before this comma, such as `max = 10`; remove the comma",
                );
                continue;
            }
            if is_named(input) {
                self.read_named(input, diagnostics);
            } else {
                unnamed.push(take_value(input));
            }
            if !input.is_empty() && input.parse::<Option<Token![,]>>().is_ok_and(|comma| comma.is_none()) {
                let after = input.cursor().token_tree().map(|(token, _)| token);
                let text = after.as_ref().map(ToString::to_string).unwrap_or_default();
                if is_named(input) && input.peek2(Token![=]) {
                    diagnostics.error(after, format!("missing comma: write `, {text} =`"));
                } else {
                    diagnostics.error(after, format!("expected a comma between arguments, found `{text}`"));
                    skip_argument(input);
                    let _: Option<Token![,]> = input.parse().unwrap_or_default();
                }
            }
        }
        if !unnamed.is_empty() {
            diagnostics.error(quote!(#(#unnamed)*), unnamed_message(&unnamed));
        }
    }

    fn read_named(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let Ok(keyword) = input.call(Ident::parse_any) else {
            return;
        };
        let word = keyword.to_string();
        let Some((name, example)) = ARGUMENTS.into_iter().find(|(name, _)| *name == word) else {
            let value = if is_assignment(input) { assigned(input) } else { None };
            skip_argument(input);
            diagnostics.error(&keyword, unknown_message(&word, value.as_ref()));
            return;
        };
        let value = read_value(input, &keyword, example, diagnostics);
        match name {
            "max" => set(&mut self.max, keyword, diagnostics, |d| {
                value::number(name, example, value?, value::UNITS, d)
            }),
            "window" => set(&mut self.window, keyword, diagnostics, |d| value::window(value?, d)),
            "key" => set(&mut self.key, keyword, diagnostics, |d| value::name(name, example, value?, d)),
            "name" => set(&mut self.name, keyword, diagnostics, |d| value::name(name, example, value?, d)),
            "by" => set(&mut self.by, keyword, diagnostics, |d| value::by(value?, d)),
            "algorithm" => set(&mut self.algorithm, keyword, diagnostics, |d| algorithm::read(value?, d)),
            "sub_windows" => {
                set(&mut self.sub_windows, keyword, diagnostics, |d| {
                    value::number(name, example, value?, value::SUB_WINDOWS, d)
                });
            }
            "burst" => set(&mut self.burst, keyword, diagnostics, |d| {
                value::number(name, example, value?, value::UNITS, d)
            }),
            "cost" => set(&mut self.cost, keyword, diagnostics, |d| {
                value::number(name, example, value?, value::UNITS, d)
            }),
            _ => set(&mut self.root, keyword, diagnostics, |d| value::root(value?, d)),
        }
    }
}

/// The one place where an argument is stored, and where a second one of the same name is refused.
fn set<T>(
    slot: &mut Option<Argument<T>>,
    keyword: Ident,
    diagnostics: &mut Diagnostics,
    read: impl FnOnce(&mut Diagnostics) -> Result<T, Reported>,
) {
    let value = read(diagnostics);
    if let Some(first) = slot {
        diagnostics.error(&keyword, format!("argument `{keyword}` is given twice; remove one of them"));
        diagnostics.error(&first.keyword, format!("`{keyword}` is first given here"));
    } else {
        *slot = Some(Argument { keyword, value });
    }
}

/// Whether a `name = value`, or an attempt at one, is next; otherwise it is a value without a name.
fn is_named(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(word) = ahead.call(Ident::parse_any) else {
        return false;
    };
    let known = ARGUMENTS.iter().any(|(name, _)| word == name) || habit(&word.to_string()).is_some();
    known || ahead.is_empty() || ahead.peek(Token![,]) || is_assignment(&ahead)
}

fn is_assignment(input: ParseStream<'_>) -> bool {
    input.peek(Token![=]) && !input.peek(Token![==]) && !input.peek(Token![=>])
}

fn read_value(
    input: ParseStream<'_>,
    keyword: &Ident,
    example: &str,
    diagnostics: &mut Diagnostics,
) -> Result<Expr, Reported> {
    if !is_assignment(input) {
        if input.is_empty() || input.peek(Token![,]) {
            return Err(diagnostics.error(keyword, format!("`{keyword}` needs a value: write `{example}`")));
        }
        let found = input.cursor().token_tree().map(|(token, _)| token);
        skip_argument(input);
        return Err(diagnostics.error(found, format!("expected `=` after `{keyword}`: write `{example}`")));
    }
    let equals: Option<Token![=]> = input.parse().unwrap_or_default();
    if input.is_empty() || input.peek(Token![,]) {
        let at = quote!(#keyword #equals);
        return Err(diagnostics.error(at, format!("`{keyword}` needs a value: write `{example}`")));
    }
    // What is tried on a fork leaves the input at the start of a value that cannot be read.
    let ahead = input.fork();
    if let Err(error) = ahead.parse::<Expr>() {
        let reported = diagnostics.push(syn::Error::new(
            error.span(),
            format!("the value of `{keyword}` cannot be read, {error}: write for example `{example}`"),
        ));
        skip_argument(input);
        return Err(reported);
    }
    input.parse::<Expr>().map_err(|error| diagnostics.push(error))
}

/// The value of an argument that does not exist, for its suggestion.
fn assigned(input: ParseStream<'_>) -> Option<Expr> {
    input.parse::<Token![=]>().ok()?;
    input.fork().parse::<Expr>().ok()
}

fn take_value(input: ParseStream<'_>) -> TokenStream {
    if input.fork().parse::<Expr>().is_ok()
        && let Ok(value) = input.parse::<Expr>()
    {
        return value.into_token_stream();
    }
    skip_argument(input)
}

fn skip_argument(input: ParseStream<'_>) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        let Ok(token) = input.parse::<TokenTree>() else {
            break;
        };
        skipped.extend([token]);
    }
    skipped
}

fn habit(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase().replace('_', "");
    let spelled = ARGUMENTS.into_iter().find(|(name, _)| name.replace('_', "") == word);
    let other = HABITS.into_iter().find(|(_, words)| words.contains(&word.as_str()));
    spelled.or(other.map(|(name, _)| (name, ""))).map(|(name, _)| name)
}

fn unknown_message(word: &str, value: Option<&Expr>) -> String {
    let names = ARGUMENTS.into_iter().map(|(name, _)| name);
    let expected = list(names.clone(), '`');
    let meant = match habit(word).or_else(|| nearest(word, names)) {
        Some(name) => match value.and_then(|value| spelled(name, value)) {
            Some(spelled) => format!("; did you mean `{name} = {spelled}`?"),
            None => format!("; did you mean `{name}`?"),
        },
        None => String::new(),
    };
    format!("unknown argument `{word}`{meant}\nexpected one of: {expected}")
}

/// A literal as it has to be written for the argument `name`, if it fits there.
fn spelled(name: &str, value: &Expr) -> Option<String> {
    let Expr::Lit(value) = value else { return None };
    match (name, &value.lit) {
        ("window", syn::Lit::Int(number)) => Some(format!("\"{}s\"", number.base10_digits())),
        ("max" | "burst" | "cost" | "sub_windows", syn::Lit::Int(_))
        | ("window" | "key" | "name" | "algorithm", syn::Lit::Str(_)) => {
            Some(value.lit.to_token_stream().to_string())
        }
        _ => None,
    }
}

fn unnamed_message(values: &[TokenStream]) -> String {
    let mut named: Vec<String> = Vec::new();
    for value in values {
        let name = match syn::parse2::<syn::Lit>(value.clone()) {
            Ok(syn::Lit::Int(_)) => "max",
            Ok(syn::Lit::Str(text)) if text.value().starts_with(|c: char| c.is_ascii_digit()) => "window",
            Ok(syn::Lit::Str(_)) => "key",
            _ => continue,
        };
        let argument = format!("{name} = {value}");
        if !named.iter().any(|other| other.starts_with(&format!("{name} "))) {
            named.push(argument);
        }
    }
    let example = if named.is_empty() { "max = 10, window = \"60s\"".to_owned() } else { named.join(", ") };
    format!("arguments have names: write `{example}`")
}
