//! Messages about arguments without a name, or with one that does not exist.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, Lit};

use crate::parse::args::table::ARGUMENTS;
use crate::parse::window::grammar;
use crate::suggest::{list, nearest};

/// The argument for which `word` is an alias or another spelling.
pub(crate) fn resolve_alias(word: &str) -> Option<&'static str> {
    let word = word.trim_start_matches("r#").to_lowercase().replace('_', "");
    let spelled = ARGUMENTS.iter().find(|row| row.name.replace('_', "") == word);
    let other = || ARGUMENTS.iter().find(|row| row.aliases.contains(&word.as_str()));
    spelled.or_else(other).map(|row| row.name)
}

/// The message about an argument that does not exist.
pub(crate) fn unknown_message(word: &str, value: Option<&Expr>) -> String {
    let names = ARGUMENTS.iter().map(|row| row.name);
    let expected = list(names.clone(), '`');
    let meant = match resolve_alias(word).or_else(|| nearest(word, names)) {
        Some(name) => match value.and_then(|value| spelled(name, value)) {
            Some(spelled) => format!("; did you mean `{name} = {spelled}`?"),
            None => format!("; did you mean `{name}`?"),
        },
        None => String::new(),
    };
    format!("unknown argument `{word}`{meant}\nexpected one of: {expected}")
}

/// The literal as a value of the argument `name`, if it fits.
fn spelled(name: &str, value: &Expr) -> Option<String> {
    let Expr::Lit(value) = value else { return None };
    let (_, example) = ARGUMENTS.iter().find(|row| row.name == name)?.example.split_once(" = ")?;
    let written = value.lit.to_token_stream().to_string();
    match (name, &value.lit) {
        ("window" | "block", Lit::Int(number)) => Some(format!("\"{}s\"", number.base10_digits())),
        ("window" | "block", Lit::Str(text)) => match grammar::parse(&text.value()) {
            Ok(_) => Some(written),
            Err(fault) => fault.meant.map(|meant| format!("\"{meant}\"")),
        },
        // Elsewhere it is a switch.
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
pub(crate) fn unnamed_message(values: &[TokenStream]) -> String {
    let mut named: Vec<String> = Vec::new();
    for value in values {
        let name = match syn::parse2::<Lit>(value.clone()) {
            Ok(Lit::Int(_)) => "max",
            Ok(Lit::Str(text)) if text.value().starts_with(|c: char| c.is_ascii_digit()) => "window",
            Ok(Lit::Str(_)) => "key",
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
