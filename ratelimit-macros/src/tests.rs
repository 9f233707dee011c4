//! Tests of the whole attribute over token streams.

mod arguments;
mod blocks;
mod callers;
mod choices;
mod counts;
mod expansion;
mod functions;
mod leases;
mod malformed;
mod page;
mod policies;
mod request_fns;
mod windows;

use proc_macro2::TokenStream;

/// A handler without mistakes.
const HANDLER: &str = "async fn user(id: web::Path<u64>) -> String { id.to_string() }";

fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// The source text and the message of each mistake.
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

/// Asserts that an attribute on a valid handler has exactly these mistakes.
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
