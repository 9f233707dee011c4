//! The grammar of `window`, by the table in `windows.txt`.
//!
//! The table is data without Rust syntax, so that any other reader of windows can be tested with it.

use crate::parse::args::table::ARGUMENTS;
use crate::parse::values::window::grammar::parse;
use crate::parse::values::window::message;

const TABLE: &str = include_str!("windows.txt");

const GRAMMAR: &str =
    "expected whole numbers with units `d`, `h`, `m`, `s` or `ms`, such as `window = \"60s\"`";

#[test]
fn the_grammar_agrees_with_the_table() {
    let window = ARGUMENTS.iter().find(|row| row.name == "window").unwrap();
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for row in rows {
        let columns: Vec<&str> = row.split(" | ").collect();
        let (text, expected) = match columns[..] {
            ["accepted", text, micros] => (text, Ok(micros.parse().unwrap())),
            ["refused", text, fault, "-"] => (text, Err(format!("{fault}: {GRAMMAR}"))),
            ["refused", text, fault, meant] => {
                (text, Err(format!("{fault}; did you mean `window = \"{meant}\"`?")))
            }
            _ => panic!("not a row of the table: {row}"),
        };
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap();
        assert_eq!(parse(text).map_err(|fault| message(window, &fault)), expected, "{text:?}");
        count += 1;
    }
    assert!(count > 0, "the table is empty");
}
