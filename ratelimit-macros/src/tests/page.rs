//! The expansion in the documentation, and the table of arguments, compared with the code.

use super::expand;
use crate::parse::args::rows::with_arguments;
use crate::parse::values::algorithm::Algorithm;
use crate::parse::values::bounds::{DEFAULT_MAX, DEFAULT_MICROS};
use crate::parse::values::choice::{ChargeTime, Choice, Count, Mode, OnError, OnMissing, Show};
use crate::parse::values::window::grammar;

const PAGE: &str = include_str!("../expand.md");

/// The handler that the page begins with, as it is written there.
const BEGIN: &str = "```rust,ignore\n// before\n";
const END: &str = "```rust,ignore\n// after\n";

#[test]
fn the_page_shows_the_expansion_of_one_handler() {
    let (arguments, item) = handler(block(PAGE, BEGIN));
    let expansion = expand(arguments, item).to_string();
    assert_eq!(
        plain(block(PAGE, END)),
        plain(&expansion),
        "src/expand.md is out of date; the expansion is now\n{expansion}"
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

/// An argument as the tables of the documentation have it.
struct Row {
    name: &'static str,
    default: &'static str,
    values: &'static str,
}

macro_rules! rows {
    ($(#[doc = $what:literal] #[doc = $default:literal] #[doc = $values:literal] $field:ident $name:literal: $type:ty, $of:ident, $example:literal, $code:tt $(, $why:literal)?;)*) => {
        &[$(Row { name: $name, default: $default, values: $values }),*]
    };
}

const ROWS: &[Row] = with_arguments!(rows);

fn row(argument: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == argument).unwrap_or_else(|| panic!("no row of `{argument}`"))
}

#[test]
fn the_table_of_arguments_names_every_value_and_the_default() {
    fn check<T: Choice>() {
        let row = row(T::ARGUMENT);
        assert_eq!(row.default, format!(" | `\"{}\"`", T::DEFAULT.spelling().name), "{}", row.name);
        for name in T::all().map(|value| format!("`\"{}\"`", value.spelling().name)) {
            assert!(row.values.contains(&name), "the row of `{}` lacks {name}", row.name);
        }
    }
    check::<OnMissing>();
    check::<OnError>();
    check::<Mode>();
    check::<Count>();
    check::<ChargeTime>();
    check::<Show>();
    check::<&Algorithm>();
}

#[test]
fn the_table_of_arguments_has_the_default_numbers() {
    assert_eq!(row("max").default, format!(" | `{DEFAULT_MAX}`"));
    let window = row("window").default.trim_matches([' ', '|', '`', '"']);
    assert_eq!(grammar::parse(window).ok(), Some(DEFAULT_MICROS), "the default of `window`");
}
