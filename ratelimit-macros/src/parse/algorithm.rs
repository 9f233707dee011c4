//! How units are counted: the names, and what people call the same things elsewhere.

use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped, word};
use crate::suggest::{list, nearest};

/// How units are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    FixedWindow,
    SlidingWindowCounter,
    SlidingWindowLog,
    TokenBucket,
}

impl Algorithm {
    const ALL: [Self; 4] =
        [Self::FixedWindow, Self::SlidingWindowCounter, Self::SlidingWindowLog, Self::TokenBucket];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::TokenBucket => "token_bucket",
        }
    }
}

/// Reads how units are counted.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<Algorithm, Reported> {
    let value = ungrouped(value);
    let expected = list(Algorithm::ALL.map(Algorithm::name), '"');
    let fault = match (literal(&value), word(&value)) {
        (Some(Lit::Str(text)), _) => {
            let text = text.value();
            if let Some(algorithm) = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text) {
                return Ok(algorithm);
            }
            format!("unknown algorithm {text:?}{}\nexpected one of: {expected}", meant(&text))
        }
        (_, Some(word)) => format!("`algorithm` takes a string{}\nexpected one of: {expected}", meant(&word)),
        _ => format!("`algorithm` takes a string, not {}\nexpected one of: {expected}", describe(&value)),
    };
    Err(diagnostics.error(value, fault))
}

/// Which algorithm goes by another name or spelling.
fn meant(text: &str) -> String {
    let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let names = Algorithm::ALL.map(Algorithm::name);
    let name = match plain.as_str() {
        "sliding" | "rollingwindow" => Some("sliding_window"),
        "gcra" | "genericcellrate" => Some("leaky_bucket"),
        "fixed" | "fixedwindowcounter" => Some(Algorithm::FixedWindow.name()),
        "slidinglog" | "log" => Some(Algorithm::SlidingWindowLog.name()),
        "slidingcounter" | "counter" => Some(Algorithm::SlidingWindowCounter.name()),
        "bucket" => Some(Algorithm::TokenBucket.name()),
        _ => names.into_iter().find(|name| name.replace('_', "") == plain),
    };
    match name.or_else(|| nearest(text, names.into_iter().chain(["sliding_window", "leaky_bucket"]))) {
        Some("sliding_window") => {
            "; did you mean \"sliding_window_counter\" (small state), or \"sliding_window_log\" (exact)?"
                .to_owned()
        }
        Some("leaky_bucket") => {
            "; the same limit is \"token_bucket\", which paces calls with `burst = 1`".to_owned()
        }
        Some(name) => format!("; did you mean `algorithm = \"{name}\"`?"),
        None => String::new(),
    }
}
