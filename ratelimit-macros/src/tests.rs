//! Tests of the attribute from end to end, over token streams.

mod arguments;
mod blocks;
mod callers;
mod expansion;
mod functions;
mod garbage;
mod page;
mod windows;

use proc_macro2::TokenStream;

/// A handler without anything to complain about.
const HANDLER: &str = "async fn user(id: web::Path<u64>) -> String { id.to_string() }";

fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// Every mistake: the source text it points at, and its message.
fn mistakes(arguments: &str, item: &str) -> Vec<(String, String)> {
    let errors = crate::attribute::errors(tokens(arguments), tokens(item));
    errors
        .into_iter()
        .map(|error| (error.span().source_text().unwrap_or_default(), error.to_string()))
        .collect()
}

fn expand(arguments: &str, item: &str) -> TokenStream {
    crate::attribute::expand(tokens(arguments), tokens(item))
}

/// Asserts that an attribute on a sound handler has exactly these mistakes.
#[track_caller]
fn check(arguments: &str, expected: &[(&str, &str)]) {
    check_item(arguments, HANDLER, expected);
}

#[track_caller]
fn check_item(arguments: &str, item: &str, expected: &[(&str, &str)]) {
    let found = mistakes(arguments, item);
    let found: Vec<(&str, &str)> =
        found.iter().map(|(at, message)| (at.as_str(), message.as_str())).collect();
    assert_eq!(found, expected, "{arguments} {item}");
}
