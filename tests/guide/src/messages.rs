//! The lines of the log in the source of the crates.

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

/// Every line that the crates log.
pub fn logged() -> Vec<Logged> {
    let mut logged = Vec::new();
    for source in sources() {
        for level in ["error", "warn", "info", "debug"] {
            for call in source.split(&format!("tracing::{level}!(")).skip(1) {
                let literals = literals(call);
                let (help, texts): (Vec<_>, Vec<_>) = literals
                    .into_iter()
                    .partition(|literal| call.contains(&format!("help = help(\"{literal}\")")));
                let (help, text) = (help.into_iter().next(), texts.into_iter().next().unwrap_or_default());
                logged.push(Logged { text: fixed(&text).to_owned(), help });
            }
        }
    }
    logged
}

/// The longest part of a text between two values.
fn fixed(text: &str) -> &str {
    text.split(['{', '}']).step_by(2).map(str::trim).max_by_key(|part| part.len()).unwrap_or_default()
}

/// The source of the crates without their tests.
fn sources() -> Vec<String> {
    let mut sources = Vec::new();
    for folder in ["ratelimit-core/src", "ratelimit-actix/src"] {
        collect(&repository().join(folder), &mut sources);
    }
    sources
}

/// Adds the source at a path, a file or a folder, without tests, comments, and quotes that begin no text.
fn collect(path: &Path, sources: &mut Vec<String>) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if path.is_dir() && name != "tests" && name != "conformance" {
        for entry in fs::read_dir(path).expect("a folder of the repository") {
            collect(&entry.expect("an entry of the folder").path(), sources);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
        let text = fs::read_to_string(path).expect("a file of the repository");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        sources.push(lines.collect::<Vec<_>>().join("\n").replace("'\"'", "' '"));
    }
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
    use super::{fixed, literals};

    #[test]
    fn the_literals_of_a_call_end_with_it() {
        assert_eq!(literals("a = %f(\"x\"), \"b \\\n   c\\\"d\"); g(\"e\")"), ["x", "b c\"d"]);
    }

    #[test]
    fn the_fixed_part_of_a_text_is_its_longest() {
        assert_eq!(fixed("unknown field `{}` of {of}; one of {}"), "unknown field `");
        assert_eq!(fixed("no values"), "no values");
    }
}
