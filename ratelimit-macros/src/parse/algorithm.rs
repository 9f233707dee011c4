//! The value of `algorithm`.

mod table;

use std::ptr;

use syn::{Expr, Lit};

pub(crate) use self::table::{ALGORITHMS, Algorithm, DEFAULT, Parameter};
use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped, word};
use crate::suggest::{list, nearest};

/// Names in use elsewhere that mean no single algorithm here: the name, its aliases, and the advice.
const RELATED: [(&str, &[&str], &str); 3] = [
    (
        "sliding_window",
        &["sliding", "rollingwindow"],
        "; did you mean \"sliding_window_counter\" (small state), or \"sliding_window_log\" (exact)?",
    ),
    (
        "leaky_bucket",
        &["gcra", "genericcellrate"],
        "; the same limit is \"token_bucket\", which paces calls with `burst = 1`",
    ),
    (
        "concurrency",
        &["concurrent", "inflight", "semaphore"],
        "; a limit of what runs at a time is `#[concurrency_limit(max = 3)]`",
    ),
];

impl Algorithm {
    /// Returns true if the algorithm has the argument `parameter`.
    pub(crate) fn has(&self, parameter: Parameter) -> bool {
        self.parameters.contains(&parameter)
    }

    /// Returns true for the default, which is not written out.
    pub(crate) fn is_default(&self) -> bool {
        ptr::eq(self, DEFAULT)
    }
}

impl Parameter {
    /// The name in the attribute.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SubWindows => "sub_windows",
            Self::Burst => "burst",
        }
    }

    /// The algorithms that have it.
    pub(crate) fn algorithms(self) -> impl Iterator<Item = &'static Algorithm> {
        ALGORITHMS.iter().filter(move |algorithm| algorithm.has(self))
    }
}

/// The algorithm of this name.
pub(crate) fn named(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

fn names() -> impl Iterator<Item = &'static str> {
    ALGORITHMS.iter().map(|algorithm| algorithm.name)
}

/// Reads the name of an algorithm.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<&'static Algorithm, Reported> {
    let value = ungrouped(value);
    let expected = list(names(), '"');
    let fault = match (literal(&value), word(&value)) {
        (Some(Lit::Str(text)), _) => {
            let text = text.value();
            if let Some(algorithm) = named(&text) {
                return Ok(algorithm);
            }
            format!("unknown algorithm {text:?}{}\nexpected one of: {expected}", meant(&text))
        }
        (_, Some(word)) => format!("`algorithm` takes a string{}\nexpected one of: {expected}", meant(&word)),
        _ => format!("`algorithm` takes a string, not {}\nexpected one of: {expected}", describe(&value)),
    };
    Err(diagnostics.error(value, fault))
}

/// The suggestion for another name or spelling.
fn meant(text: &str) -> String {
    let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let related = RELATED.iter().find(|(_, aliases, _)| aliases.contains(&plain.as_str()));
    let alias = ALGORITHMS.iter().find(|algorithm| algorithm.aliases.contains(&plain.as_str()));
    let name = related
        .map(|(name, ..)| *name)
        .or(alias.map(|algorithm| algorithm.name))
        .or_else(|| names().find(|name| name.replace('_', "") == plain))
        .or_else(|| nearest(text, names().chain(RELATED.iter().map(|(name, ..)| *name))));
    let Some(name) = name else { return String::new() };
    match RELATED.iter().find(|(related, ..)| *related == name) {
        Some((_, _, advice)) => (*advice).to_owned(),
        None => format!("; did you mean `algorithm = \"{name}\"`?"),
    }
}
