//! The tables of arguments: of the rows that the attribute reads them by.

use std::fmt::Write as _;

#[path = "../../../ratelimit-macros/src/parse/args/rows.rs"]
mod rows;

/// An argument, what it is of, and cells of the tables, each behind its `|`.
struct Row {
    name: &'static str,
    of: &'static str,
    example: &'static str,
    what: &'static str,
    default: &'static str,
    values: &'static str,
}

macro_rules! rows {
    ($(#[doc = $what:literal] #[doc = $default:literal] #[doc = $values:literal] $field:ident $name:literal: $type:ty, $of:ident, $example:literal, $code:tt $(, $why:literal)?;)*) => {
        &[$(Row { name: $name, of: stringify!($of), example: $example, what: $what, default: $default, values: $values }),*]
    };
}

const ROWS: &[Row] = rows::with_arguments!(rows);

/// Those of most limits, for the README.
const IN_DAILY_USE: [&str; 10] =
    ["max", "window", "by", "key", "algorithm", "cost", "count", "block", "on_error", "mode"];

/// The place of an argument's value where a limit is one of middleware.
fn in_middleware(row: &Row) -> String {
    match (row.name, row.of) {
        ("policy", _) => "`Limit::new`".to_owned(),
        ("charge", _) => "`Limit::charge_after`".to_owned(),
        ("max" | "anchor", _) => format!("its policy; per request `Limit::{}`", row.name),
        (_, "Policy" | "Part") => "its policy".to_owned(),
        (name, "Limit") => format!("`Limit::{name}`"),
        _ => "none".to_owned(),
    }
}

/// The table of all arguments.
pub(crate) fn table() -> String {
    let mut text =
        "| argument | what it is | default | values | in middleware |\n|---|---|---|---|---|\n".to_owned();
    for row in ROWS {
        let Row { example, what, values, default, .. } = row;
        _ = writeln!(text, "| `{example}`{what}{default}{values} | {} |", in_middleware(row));
    }
    text
}

/// The table of those that most limits have.
pub(crate) fn short_table() -> String {
    let mut text = "| argument | what it is | default |\n|---|---|---|\n".to_owned();
    for name in IN_DAILY_USE {
        let row = ROWS.iter().find(|row| row.name == name).expect("an argument in daily use exists");
        _ = writeln!(text, "| `{}`{}{} |", row.example, row.what, row.default);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_table_is_one_of_limits() {
        let limit = crate::read("ratelimit-actix/src/middleware/limit.rs");
        for row in ROWS {
            let place = in_middleware(row);
            let Some((_, method)) = place.split_once("`Limit::") else { continue };
            let method = method.trim_end_matches('`');
            let is_method = |end| limit.contains(&format!("    pub fn {method}{end}"));
            assert!(is_method('(') || is_method('<'), "{}: no `Limit::{method}`", row.name);
        }
    }
}
