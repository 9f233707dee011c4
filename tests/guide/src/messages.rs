//! The messages in the source of the crates: what is logged, and the errors at the start.

use std::fs;
use std::path::Path;

use crate::repository;

/// A line that is logged.
#[derive(Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its text, or the longest part of it between two values.
    pub text: String,
    /// The section of the page that it names.
    pub help: Option<String>,
}

/// What the field `help` begins with.
const PAGE: &str = "ratelimit_actix::guide::messages#";

/// Every line that the crates log.
pub fn logged() -> Vec<Logged> {
    let mut logged = Vec::new();
    for source in sources() {
        for level in ["error", "warn", "info", "debug"] {
            for call in source.split(&format!("tracing::{level}!(")).skip(1) {
                let literals = literals(call);
                let help = literals.iter().find_map(|literal| literal.strip_prefix(PAGE)).map(str::to_owned);
                let text =
                    literals.into_iter().find(|literal| !literal.starts_with(PAGE)).unwrap_or_default();
                let fixed = text.split(['{', '}']).step_by(2).map(str::trim).max_by_key(|part| part.len());
                logged.push(Logged { text: fixed.unwrap_or_default().to_owned(), help });
            }
        }
    }
    logged
}

/// The text of each error, or the longest part of it between two values.
pub fn errors() -> Vec<String> {
    let mut errors = Vec::new();
    for source in sources() {
        for attribute in source.split("#[error(").skip(1) {
            let text = literals(attribute).into_iter().next().unwrap_or_default();
            errors.extend(
                text.split(['{', '}'])
                    .step_by(2)
                    .map(str::trim)
                    .max_by_key(|part| part.len())
                    .map(str::to_owned),
            );
        }
    }
    errors.retain(|text| text.len() > 12);
    errors
}

/// The source of the crates without their tests.
fn sources() -> Vec<String> {
    fn collect(folder: &Path, sources: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("an entry of the folder").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "tests" && name != "conformance" {
                collect(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("a file of the repository");
                sources.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned());
            }
        }
    }
    let mut sources = Vec::new();
    for folder in ["ratelimit-core/src", "ratelimit-actix/src"] {
        collect(&repository().join(folder), &mut sources);
    }
    sources
}

/// The string literals of the call whose arguments begin here, with lines joined.
fn literals(call: &str) -> Vec<String> {
    let (mut literals, mut current, mut depth) = (Vec::new(), None::<String>, 1);
    let mut signs = call.chars();
    while let Some(sign) = signs.next() {
        match (&mut current, sign) {
            (Some(text), '\\') => match signs.next() {
                // A line goes on at its first sign.
                Some('\n') => {
                    let rest = signs.as_str().trim_start();
                    signs = rest.chars();
                }
                Some(escaped) => text.push(escaped),
                None => {}
            },
            (Some(_), '"') => literals.extend(current.take()),
            (Some(text), sign) => text.push(sign),
            (None, '"') => current = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            (None, _) => {}
        }
    }
    literals
}

#[cfg(test)]
mod tests {
    use super::literals;

    #[test]
    fn the_literals_of_a_call_end_with_it() {
        assert_eq!(literals("a = %f(\"x\"), \"b \\\n   c\\\"d\"); g(\"e\")"), ["x", "b c\"d"]);
    }
}
