//! Text to overrides: the form, without the limits of the program. Finds all mistakes, each with its line.

use std::collections::BTreeMap;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::in_force::Field;
use super::row::{Override, Switch};
use super::set::LimitOverride;
use crate::policy::suggest::{list, nearest};
use crate::policy::unknown_value::UnknownValueError;
use crate::policy::{Mode, OnError, Window};

/// The tables beside the fields of a limit.
const TABLES: [&str; 2] = ["plans", "callers"];

/// The limits of a text.
pub(super) fn limits(text: &str) -> Result<BTreeMap<String, LimitOverride>, Vec<Problem>> {
    let mut reader = Reader { text, problems: Vec::new() };
    let limits = match DeTable::parse(text) {
        Ok(root) => reader.root(root.get_ref()),
        Err(error) => {
            let line = error.span().map(|span| reader.line(span.start));
            // Without the lines of the source, which may have the name of a caller.
            reader.problems.push(Problem::new(line, format!("expected TOML: {}", one_line(error.message()))));
            BTreeMap::new()
        }
    };
    if reader.problems.is_empty() { Ok(limits) } else { Err(reader.problems) }
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).collect::<Vec<_>>().join(", ")
}

type Key<'i> = Spanned<std::borrow::Cow<'i, str>>;
type Value<'i> = Spanned<DeValue<'i>>;

struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The line of a place in the text, from 1 on.
    fn line(&self, at: usize) -> usize {
        1 + self.text.get(..at).map_or(0, newlines)
    }

    fn problem<T>(&mut self, place: &Spanned<T>, text: impl Into<String>) {
        let line = self.line(place.span().start);
        self.problems.push(Problem::new(Some(line), text));
    }

    fn root(&mut self, root: &DeTable<'_>) -> BTreeMap<String, LimitOverride> {
        let mut limits = BTreeMap::new();
        for (key, value) in root {
            if key.get_ref() != "limit" {
                self.problem(
                    key,
                    unknown(
                        "table",
                        key,
                        nearest(key.get_ref(), ["limit", "limits"]),
                        "; expected `[limit.NAME]`",
                    ),
                );
                continue;
            }
            let Some(named) = self.table(value, "a table for each limit, such as `[limit.shop]`") else {
                continue;
            };
            for (name, value) in named {
                if let Some(table) = self.table(value, "a table for a limit, such as `[limit.shop]`") {
                    limits.insert(name.get_ref().to_string(), self.limit(name, table));
                }
            }
        }
        limits
    }

    fn limit(&mut self, name: &Key<'_>, table: &DeTable<'_>) -> LimitOverride {
        let limit = format!("limit `{}`", name.get_ref());
        let mut read = LimitOverride::new();
        read.row.line = Some(self.line(name.span().start));
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "plans" => read.plans = self.rows(value, &format!("a plan of {limit}"), Place::Plan),
                "callers" => read.callers = self.rows(value, &format!("a caller of {limit}"), Place::Caller),
                _ => self.field(&mut read.row, key, value, &limit, Place::Limit),
            }
        }
        read
    }

    /// The rows of plans or callers.
    fn rows(&mut self, value: &Value<'_>, of: &str, place: Place) -> BTreeMap<String, Override> {
        let mut rows = BTreeMap::new();
        let expected = format!("a table for {of}, such as `{{ max = 500 }}`");
        let Some(table) = self.table(value, &expected) else { return rows };
        // Lines are counted once: there may be many rows.
        let mut position = (0, 1);
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let Some(fields) = self.table(value, &expected) else { continue };
            let start = key.span().start;
            position = (start, position.1 + self.text.get(position.0..start).map_or(0, newlines));
            let mut row = Override { line: Some(position.1), ..Override::new() };
            for (key, value) in fields {
                self.field(&mut row, key, value, of, place);
            }
            rows.insert(key.get_ref().to_string(), row);
        }
        rows
    }

    fn table<'v, 'i>(&mut self, value: &'v Value<'i>, expected: &str) -> Option<&'v DeTable<'i>> {
        if let DeValue::Table(table) = value.get_ref() {
            return Some(table);
        }
        self.problem(value, format!("expected {expected}, found {}", kind(value.get_ref())));
        None
    }

    /// Reads one field into a row.
    fn field(&mut self, row: &mut Override, key: &Key<'_>, value: &Value<'_>, of: &str, place: Place) {
        let Some(field) = Field::named(key.get_ref()) else {
            let tables = if place == Place::Limit { &TABLES[..] } else { &[] };
            let names = Field::ALL.iter().map(|field| field.as_str()).chain(tables.iter().copied());
            let meant = nearest(key.get_ref(), names.clone());
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            // A key without a near match may be the name of a caller, or a part of it.
            let shown = meant.filter(|_| place != Place::Caller);
            let expected = format!(" of {of}, expected one of {}{hint}", list(names, '`'));
            return self.problem(key, unknown("field", key, shown, &expected));
        };
        let read = match field {
            Field::Max => units(value).map(|max| row.max = Some(max)),
            Field::Burst => units(value).map(|burst| row.burst = Some(burst)),
            Field::Window => parsed::<Window>(value, "a time such as \"60s\"")
                .map(|window| row.window = Some(window.duration())),
            Field::Block => block(value).map(|block| row.block = Some(block)),
            Field::Mode => mode(value).map(|mode| row.mode = Some(mode)),
            Field::OnError => parsed::<OnError>(value, "the name of a failure policy")
                .map(|policy| row.on_error = Some(policy)),
        };
        if let Err(fault) = read {
            self.problem(value, format!("`{}` of {of}: {fault}", field.as_str()));
        }
    }
}

/// What a table of fields belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Limit,
    Plan,
    Caller,
}

/// An unknown key, which is shown if it is near a known one. Another one may be the name of a caller, which no message has.
fn unknown(kind: &str, key: &Key<'_>, near: Option<&str>, expected: &str) -> String {
    match near {
        Some(_) => format!("unknown {kind} `{}`{expected}", key.get_ref()),
        None => format!("unknown {kind}{expected}"),
    }
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn unexpected(value: &DeValue<'_>, expected: &str) -> String {
    format!("expected {expected}, found {}", kind(value))
}

fn units(value: &Value<'_>) -> Result<u64, String> {
    let value = value.get_ref();
    let DeValue::Integer(number) = value else { return Err(unexpected(value, "a whole number")) };
    u64::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| format!("expected a whole number from 1 to 1000000000000, found {number}"))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(value: &Value<'_>, expected: &str) -> Result<T, String> {
    let value = value.get_ref();
    let DeValue::String(text) = value else { return Err(unexpected(value, expected)) };
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn block(value: &Value<'_>) -> Result<Option<std::time::Duration>, String> {
    match value.get_ref() {
        DeValue::String(text) if text == "off" => Ok(None),
        _ => {
            parsed::<Window>(value, "a time such as \"10m\", or \"off\"").map(|block| Some(block.duration()))
        }
    }
}

fn mode(value: &Value<'_>) -> Result<Switch, String> {
    let names = || Mode::ALL.iter().map(|mode| mode.as_str()).chain(["off"]);
    match value.get_ref() {
        DeValue::String(text) if text == "off" => Ok(Switch::Off),
        DeValue::String(text) => match text.parse() {
            Ok(mode) => Ok(Switch::Mode(mode)),
            Err(_) => Err(UnknownValueError::new("mode", text, names().collect()).to_string()),
        },
        other => Err(unexpected(other, &format!("one of {}", list(names(), '"')))),
    }
}
