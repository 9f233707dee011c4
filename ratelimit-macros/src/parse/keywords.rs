//! The names of arguments and their aliases.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, Lit};

use crate::suggest::{list, nearest};

/// All arguments: name and example.
pub(crate) const ARGUMENTS: [(&str, &str); 20] = [
    ("max", "max = 10"),
    ("window", "window = \"60s\""),
    ("key", "key = \"user-api\""),
    ("name", "name = \"hourly\""),
    ("by", "by = ip"),
    ("on_missing", "on_missing = \"anonymous\""),
    ("on_error", "on_error = \"deny\""),
    ("algorithm", "algorithm = \"token_bucket\""),
    ("sub_windows", "sub_windows = 6"),
    ("burst", "burst = 20"),
    ("cost", "cost = 5"),
    ("block", "block = \"10m\""),
    ("mode", "mode = \"shadow\""),
    ("count", "count = \"failures\""),
    ("lease", "lease = \"100ms\""),
    ("skip", "skip = with(is_internal)"),
    ("plan", "plan = plan_of"),
    ("policy", "policy = SEARCH"),
    ("inner", "inner = user_body"),
    ("crate", "crate = ::ratelimit_actix"),
];

/// Names of the same arguments in other rate limiters, in lower case and without underscores.
const ALIASES: [(&str, &[&str]); 17] = [
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
    ("on_missing", &["missing", "ifmissing", "onnone", "default"]),
    ("on_error", &["onfailure", "fallback", "failopen", "failclosed", "failuremode"]),
    ("count", &["only", "countif", "counts", "countonly"]),
    ("skip", &["unless", "skipif", "exempt", "when", "condition", "except"]),
    (
        "block",
        &["blockduration", "blockfor", "ban", "banfor", "banduration", "lockout", "penalty", "cooldown"],
    ),
    ("mode", &["shadow", "shadowmode", "dryrun", "reportonly", "logonly"]),
    ("plan", &["plans", "tier", "tiers", "subscription"]),
    ("policy", &["rule", "quota", "sharedlimit", "limiter", "ratelimiter"]),
    ("inner", &["direct", "original", "bodyname"]),
    ("lease", &["leases", "leasetime", "hold", "prefetch", "synctime", "syncrate"]),
];

/// The argument for which `word` is an alias or another spelling.
pub(crate) fn resolve_alias(word: &str) -> Option<&'static str> {
    let word = word.trim_start_matches("r#").to_lowercase().replace('_', "");
    let spelled = ARGUMENTS.into_iter().find(|(name, _)| name.replace('_', "") == word);
    let other = ALIASES.into_iter().find(|(_, words)| words.contains(&word.as_str()));
    spelled.or(other.map(|(name, _)| (name, ""))).map(|(name, _)| name)
}

/// The message about an argument that does not exist.
pub(crate) fn unknown_message(word: &str, value: Option<&Expr>) -> String {
    let names = ARGUMENTS.into_iter().map(|(name, _)| name);
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
    match (name, &value.lit) {
        ("window" | "block", Lit::Int(number)) => Some(format!("\"{}s\"", number.base10_digits())),
        ("max" | "burst" | "cost" | "sub_windows", Lit::Int(_))
        | (
            "window" | "block" | "lease" | "key" | "name" | "algorithm" | "on_missing" | "on_error" | "count"
            | "mode",
            Lit::Str(_),
        ) => Some(value.lit.to_token_stream().to_string()),
        // Elsewhere it is a switch.
        ("mode", Lit::Bool(is_shadow)) => {
            Some(if is_shadow.value { "\"shadow\"" } else { "\"enforce\"" }.to_owned())
        }
        ("lease", Lit::Int(number)) => Some(format!("\"{}ms\"", number.base10_digits())),
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
