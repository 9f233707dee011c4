//! The expansion in `docs/attribute.md`, compared with the real one.

use std::fs;

use super::expand;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/attribute.md");

/// The handler that the page begins with, as it is written there.
const BEGIN: &str = "```rust,ignore\n// before\n";
const END: &str = "```rust,ignore\n// after\n";

#[test]
fn the_page_shows_the_expansion_of_one_handler() {
    // The published crate does not contain the page.
    let Ok(page) = fs::read_to_string(PAGE) else { return };
    let (arguments, item) = handler(block(&page, BEGIN));
    let expansion = expand(arguments, item).to_string();
    assert_eq!(
        plain(block(&page, END)),
        plain(&expansion),
        "docs/attribute.md is out of date; the expansion is now\n{expansion}"
    );
}

/// The content of the block that begins with `first`.
fn block<'a>(page: &'a str, first: &str) -> &'a str {
    let at = page.find(first).unwrap_or_else(|| panic!("no {first:?} in the page")) + first.len();
    let end = page[at..].find("```").map_or(page.len(), |end| at + end);
    &page[at..end]
}

/// The arguments of the attribute, and the item below it.
fn handler(source: &str) -> (&str, &str) {
    let source = source.trim_start().strip_prefix("#[rate_limit(").unwrap();
    source.split_once(")]\n").unwrap()
}

/// Removes what a formatter may change: blanks, comments and last commas.
fn plain(source: &str) -> String {
    let tokens: proc_macro2::TokenStream = source.parse().unwrap();
    let text: String = tokens.to_string().split_whitespace().collect();
    [",)", ",}", ",]", ",>"].iter().fold(text, |text, end| text.replace(end, &end[1..]))
}
