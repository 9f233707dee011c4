//! The expansion in `docs/attribute.md`, and the tables of arguments, compared with the code.

use std::fs;

use super::expand;
use crate::parse::algorithm::Algorithm;
use crate::parse::args::table::{ARGUMENTS, arguments_of};
use crate::parse::bounds::{DEFAULT_MAX, DEFAULT_MICROS};
use crate::parse::choice::{ChargeTime, Choice, Count, Mode, OnError, OnMissing, Show};
use crate::parse::kind::Kind;
use crate::parse::window::grammar;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/attribute.md");

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");

const PAGE_OF_ARGUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/arguments.md");

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

/// The rows of an argument in the tables of the documentation and of the guide, from the second column.
fn rows(argument: &str) -> Vec<String> {
    // The published crate does not contain the page.
    let page = fs::read_to_string(PAGE_OF_ARGUMENTS).unwrap_or_default();
    let begin = format!("| `{argument}` | ");
    let lines = include_str!("../lib.rs").lines().chain(page.lines());
    lines.filter_map(|line| line.trim_start_matches("/// ").strip_prefix(&begin)).map(str::to_owned).collect()
}

/// The tables of arguments: where they are, their cells, and the attribute that they are of.
fn tables() -> Vec<(&'static str, Vec<Vec<String>>, Kind)> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (documentation, listed, readme) =
        (include_str!("../lib.rs").to_owned(), read(PAGE_OF_ARGUMENTS), read(README));
    let mut tables = Vec::new();
    for (place, text, position, kind) in [
        ("lib.rs, `rate_limit`", &documentation, 1, Kind::Rate),
        ("lib.rs, `concurrency_limit`", &documentation, 2, Kind::Concurrency),
        ("docs/arguments.md", &listed, 1, Kind::Rate),
        ("README.md", &readme, 1, Kind::Rate),
    ] {
        // The published crate contains no page.
        if text.is_empty() {
            continue;
        }
        let table = text.split("| argument |").nth(position).unwrap_or_else(|| panic!("{place}: no table"));
        let lines = table.lines().map(|line| line.trim_start_matches("/// ")).skip(2);
        let rows = lines.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        tables.push((place, rows.map(|row| row.split(" | ").map(str::to_owned).collect()).collect(), kind));
    }
    tables
}

/// The words in backticks, in the order of the alphabet.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    words.sort_unstable();
    words
}

fn sorted(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn the_tables_of_arguments_have_a_row_for_each() {
    for (place, rows, kind) in tables() {
        let listed: Vec<&str> = rows.iter().flat_map(|row| words(&row[0])).collect();
        let names = sorted(arguments_of(kind).map(|row| row.name));
        if place == "README.md" {
            let unknown: Vec<_> = listed.iter().filter(|name| !names.contains(name)).collect();
            assert!(unknown.is_empty() && listed.len() > 5, "{place}: {unknown:?}");
            let algorithm = rows.iter().find(|row| row[0] == "`algorithm`").unwrap();
            assert_eq!(algorithm[2], format!("`\"{}\"`", <&Algorithm>::DEFAULT.name), "{place}");
            let max = rows.iter().find(|row| row[0].starts_with("`max`")).unwrap();
            assert_eq!(max[2], format!("{DEFAULT_MAX} per {} s", DEFAULT_MICROS / 1_000_000), "{place}");
        } else {
            let mut listed = listed;
            listed.sort_unstable();
            assert_eq!(listed, names, "{place}");
        }
    }
}

/// What `policy` replaces, what is beside it, and what a concurrency limit does not have.
#[test]
fn the_documentation_tells_which_arguments_belong_to_what() {
    for (place, rows, kind) in tables() {
        let Some(policy) = rows.iter().find(|row| row[0] == "`policy`") else { continue };
        let (_, parts) =
            policy[1].split_once("replaces").or_else(|| policy[1].split_once("instead of")).unwrap();
        let of_policy = arguments_of(kind).filter(|row| row.is_of_policy());
        assert_eq!(words(parts), sorted(of_policy.map(|row| row.name)), "{place}, the row of `policy`");
    }
    let documentation = include_str!("../lib.rs").replace("\n///", "");
    let before = |end| {
        let text = documentation.split(end).next().unwrap();
        text.rsplit(['.', '/']).next().unwrap()
    };
    let only_of_rates = ARGUMENTS.iter().filter(|row| row.rate_only.is_some()).map(|row| row.name);
    assert_eq!(words(before(" are compile errors: none of them")), sorted(only_of_rates), "lib.rs");
}

#[test]
fn the_tables_of_arguments_name_every_value_and_the_default() {
    fn check<T: Choice>() {
        let rows = rows(T::ARGUMENT);
        assert!(!rows.is_empty(), "no row of `{}`", T::ARGUMENT);
        let default = format!("| `\"{}\"` |", T::DEFAULT.spelling().name);
        for row in rows {
            assert!(row.ends_with(&default), "the default of `{}` is {default}, found {row}", T::ARGUMENT);
            for name in T::all().map(|value| format!("`\"{}\"`", value.spelling().name)) {
                assert!(row.contains(&name), "the row of `{}` lacks {name}: {row}", T::ARGUMENT);
            }
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
fn the_tables_of_arguments_have_the_default_numbers() {
    let default = |row: &str| row.rsplit('`').nth(1).unwrap_or_default().trim_matches('"').to_owned();
    // A concurrency limit has no default of `max`.
    let max: Vec<String> =
        rows("max").iter().filter(|row| !row.contains("required")).map(|row| default(row)).collect();
    assert!(!max.is_empty() && max.iter().all(|max| *max == DEFAULT_MAX.to_string()), "{max:?}");
    let windows: Vec<String> = rows("window").iter().map(|row| default(row)).collect();
    assert!(!windows.is_empty(), "no row of `window`");
    for window in windows {
        assert_eq!(grammar::parse(&window).ok(), Some(DEFAULT_MICROS), "the default of `window`: {window}");
    }
}
