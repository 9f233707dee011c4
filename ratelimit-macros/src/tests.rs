//! Tests of the whole attribute over token streams.

mod blocks;
mod expansion;
mod malformed;
mod mistakes;
mod page;
mod request_fns;
mod windows;

use proc_macro2::TokenStream;

use crate::parse::kind::Kind;

/// A handler without mistakes.
const HANDLER: &str = "async fn user(id: web::Path<u64>) -> String { id.to_string() }";

fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn expand(arguments: &str, item: &str) -> TokenStream {
    crate::attribute::expand(Kind::Rate, tokens(arguments), tokens(item))
}

/// The messages of all mistakes.
fn messages(arguments: TokenStream, item: TokenStream) -> Vec<String> {
    crate::attribute::errors(Kind::Rate, arguments, item).iter().map(ToString::to_string).collect()
}
