//! Messages about arguments without a name, or with a name that does not exist.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, Lit};

use crate::parse::args::table::{ARGUMENTS, ELSEWHERE, arguments_of};
use crate::parse::kind::Kind;
use crate::parse::suggest::{list, nearest};
use crate::parse::values::window::{arguments_of_rate, grammar};

/// The argument for which `word` is an alias or another spelling.
pub(crate) fn resolve_alias(kind: Kind, word: &str) -> Option<&'static str> {
    let word = plain(word);
    let spelled = arguments_of(kind).find(|usage| usage.name.replace('_', "") == word);
    let other = || arguments_of(kind).find(|usage| usage.aliases.contains(&word.as_str()));
    let max = || kind.has_max_named(&word).then_some("max");
    spelled.or_else(other).map(|usage| usage.name).or_else(max)
}

/// A word in lower case and without underscores.
fn plain(word: &str) -> String {
    word.trim_start_matches("r#").to_lowercase().replace('_', "")
}

/// The message about an argument that does not exist.
pub(crate) fn unknown_message(kind: Kind, word: &str, value: Option<&Expr>) -> String {
    let names = arguments_of(kind).map(|usage| usage.name);
    let expected = list(names.clone(), '`');
    let plain = plain(word);
    if let Some((_, place)) = ELSEWHERE.iter().find(|(words, _)| words.contains(&plain.as_str())) {
        return format!("unknown argument `{word}`: {place}\nexpected one of: {expected}");
    }
    let other = Kind::ALL.into_iter().find(|other| other.has_max_named(&plain));
    let meant = match (resolve_alias(kind, word).or_else(|| nearest(word, names)), other) {
        (None, Some(other)) => {
            let max = value.and_then(|value| spelled("max", value)).unwrap_or_else(|| "3".to_owned());
            format!("; did you mean `#[{}(max = {max})]`?", other.name())
        }
        (Some(name), _) => match value.and_then(|value| spelled(name, value)) {
            Some(spelled) => format!("; did you mean `{name} = {spelled}`?"),
            None => format!("; did you mean `{name}`?"),
        },
        (None, None) => String::new(),
    };
    format!("unknown argument `{word}`{meant}\nexpected one of: {expected}")
}

/// The literal as a value of the argument `name`, if it fits.
fn spelled(name: &str, value: &Expr) -> Option<String> {
    let Expr::Lit(value) = value else { return None };
    let (_, example) = ARGUMENTS.iter().find(|usage| usage.name == name)?.example.split_once(" = ")?;
    let written = value.lit.to_token_stream().to_string();
    match (name, &value.lit) {
        ("window" | "block", Lit::Int(number)) => Some(format!("\"{}s\"", number.base10_digits())),
        ("window" | "block", Lit::Str(text)) => match grammar::parse(&text.value()) {
            Ok(_) => Some(written),
            Err(fault) => fault.meant.map(|meant| format!("\"{meant}\"")),
        },
        // In other rate limiters it is a switch.
        ("mode", Lit::Bool(is_shadow)) => {
            Some(if is_shadow.value { "\"shadow\"" } else { "\"enforce\"" }.to_owned())
        }
        ("lease", Lit::Int(number)) => Some(format!("\"{}ms\"", number.base10_digits())),
        // A value of the same kind as the example.
        (_, Lit::Int(_)) if example.starts_with(|c: char| c.is_ascii_digit()) => Some(written),
        (_, Lit::Str(_)) if example.starts_with('"') => Some(written),
        _ => None,
    }
}

/// The message about values without names.
pub(crate) fn unnamed_message(kind: Kind, values: &[TokenStream]) -> String {
    let mut named: Vec<String> = Vec::new();
    for value in values {
        let name = match syn::parse2::<Lit>(value.clone()) {
            Ok(Lit::Int(_)) => "max",
            Ok(Lit::Str(text)) => match arguments_of_rate(&text.value()) {
                Some(rate) => {
                    named.push(rate);
                    continue;
                }
                None if kind == Kind::Rate && text.value().starts_with(|c: char| c.is_ascii_digit()) => {
                    "window"
                }
                None => "key",
            },
            _ => continue,
        };
        let argument = format!("{name} = {value}");
        if !named.iter().any(|other| other.starts_with(&format!("{name} "))) {
            named.push(argument);
        }
    }
    let example = if named.is_empty() { kind.example().to_owned() } else { named.join(", ") };
    format!("arguments have names: write `{example}`")
}
