//! Files and texts to overrides: the form, without the limits of the program. Finds mistakes, each with its
//! line, without a walk through the text for each.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{OverridesError, Problems};
use super::file::{file_name, read_file};
use super::set::{LimitOverride, Overrides};
use super::table::{Origin, WrittenRow};
use crate::policy::suggest::{list, nearest};
use crate::policy::value::Written;
use crate::policy::{Field, Settings};

/// The tables beside the fields of a limit.
const TABLES: [&str; 2] = ["plans", "callers"];

impl Overrides {
    /// Reads a file. It is not read again without [`watch`](Self::watch).
    ///
    /// Reads on the calling thread: call it when the program starts.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no file, is longer than [`MAX_FILE_LEN`](super::MAX_FILE_LEN), does not
    /// end with a line break, or is not in the form above.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, OverridesError> {
        let path = path.as_ref();
        let text = read_file(path).map_err(|text| OverridesError::one(&file_name(path), text))?;
        Self::from_text_of(path, text)
    }

    /// Reads the text that a file has.
    pub(super) fn from_text_of(path: &Path, text: String) -> Result<Self, OverridesError> {
        let limits = limits(&text).map_err(|problems| OverridesError::new(&file_name(path), problems))?;
        Ok(Self { limits, file: Some((path.to_owned(), text)), is_watched: false })
    }
}

impl FromStr for Overrides {
    type Err = OverridesError;

    /// Reads a text in the form of a file. It needs no line break at its end.
    fn from_str(text: &str) -> Result<Self, OverridesError> {
        let limits = limits(text).map_err(|problems| OverridesError::new("the overrides", problems))?;
        Ok(Self { limits, ..Self::default() })
    }
}

/// The limits of a text.
fn limits(text: &str) -> Result<BTreeMap<String, LimitOverride>, Problems> {
    let mut reader = FileReader { lines: Lines::of(text), problems: Problems::default() };
    let limits = match DeTable::parse(text) {
        Ok(root) => reader.root(root.get_ref()),
        Err(error) => {
            let line = error.span().map(|span| reader.lines.at(span.start));
            // Without the lines of the source, which may have the name of a caller.
            reader.problems.push(line, format!("expected TOML: {}", one_line(error.message())));
            BTreeMap::new()
        }
    };
    reader.problems.or(limits)
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).collect::<Vec<_>>().join(", ")
}

type SpannedKey<'i> = Spanned<std::borrow::Cow<'i, str>>;
type SpannedValue<'i> = Spanned<DeValue<'i>>;

struct FileReader {
    lines: Lines,
    problems: Problems,
}

impl FileReader {
    fn problem<T>(&mut self, place: &Spanned<T>, text: impl Into<String>) {
        let line = self.lines.at(place.span().start);
        self.problems.push(Some(line), text);
    }

    /// The entries of a table in the order of the text, until there are enough problems.
    fn each<'v, 'i>(
        &mut self,
        table: &'v DeTable<'i>,
        mut read: impl FnMut(&mut Self, &'v SpannedKey<'i>, &'v SpannedValue<'i>),
    ) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            if self.problems.is_enough() {
                return;
            }
            read(self, key, value);
        }
    }

    fn root(&mut self, root: &DeTable<'_>) -> BTreeMap<String, LimitOverride> {
        let mut limits = BTreeMap::new();
        self.each(root, |reader, key, value| {
            if key.get_ref() != "limit" {
                let near = nearest(key.get_ref(), ["limit", "limits"]);
                return reader.problem(key, unknown("table", key, near, "; expected `[limit.NAME]`"));
            }
            let Some(named) = reader.table(value, "a table for each limit, such as `[limit.shop]`") else {
                return;
            };
            reader.each(named, |reader, name, value| {
                if let Some(table) = reader.table(value, "a table for a limit, such as `[limit.shop]`") {
                    limits.insert(name.get_ref().to_string(), reader.limit(name, table));
                }
            });
        });
        limits
    }

    fn limit(&mut self, name: &SpannedKey<'_>, table: &DeTable<'_>) -> LimitOverride {
        let limit = format!("limit `{}`", name.get_ref());
        let mut read = LimitOverride::new();
        read.row.line = Some(self.lines.at(name.span().start));
        self.each(table, |reader, key, value| match key.get_ref().as_ref() {
            "plans" => read.plans = reader.rows(value, &format!("a plan of {limit}"), Origin::Plan),
            "callers" => read.callers = reader.rows(value, &format!("a caller of {limit}"), Origin::Caller),
            _ => reader.field(&mut read.row.settings, key, value, &limit, Origin::Limit),
        });
        read
    }

    /// The rows of plans or callers.
    fn rows(&mut self, value: &SpannedValue<'_>, of: &str, place: Origin) -> BTreeMap<String, WrittenRow> {
        let mut rows = BTreeMap::new();
        let expected = format!("a table for {of}, such as `{{ max = 500 }}`");
        let Some(table) = self.table(value, &expected) else { return rows };
        self.each(table, |reader, key, value| {
            let Some(fields) = reader.table(value, &expected) else { return };
            let line = Some(reader.lines.at(key.span().start));
            let mut row = WrittenRow { settings: Settings::new(), line };
            reader.each(fields, |reader, key, value| reader.field(&mut row.settings, key, value, of, place));
            rows.insert(key.get_ref().to_string(), row);
        });
        rows
    }

    fn table<'v, 'i>(&mut self, value: &'v SpannedValue<'i>, expected: &str) -> Option<&'v DeTable<'i>> {
        if let DeValue::Table(table) = value.get_ref() {
            return Some(table);
        }
        self.problem(value, format!("expected {expected}, found {}", kind(value.get_ref())));
        None
    }

    /// Reads one field into a row.
    fn field(
        &mut self,
        row: &mut Settings,
        key: &SpannedKey<'_>,
        value: &SpannedValue<'_>,
        of: &str,
        place: Origin,
    ) {
        let fields = Field::ALL.iter().copied().filter(|field| field.is_overridable());
        let Some(field) = fields.clone().find(|field| field.as_str() == key.get_ref()) else {
            let tables = if place == Origin::Limit { &TABLES[..] } else { &[] };
            let names = fields.map(Field::as_str).chain(tables.iter().copied());
            let meant = nearest(key.get_ref(), names.clone());
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            // A key without a near match may be the name of a caller, or a part of it.
            let shown = meant.filter(|_| place != Origin::Caller);
            let expected = format!(" of {of}, expected one of {}{hint}", list(names, '`'));
            return self.problem(key, unknown("field", key, shown, &expected));
        };
        let value_of_type = value.get_ref();
        let read = match value_of_type {
            DeValue::String(text) => row.read(field, Written::Text(text)),
            DeValue::Integer(number) if field.is_number() => {
                match u64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => row.read(field, Written::Number(number)),
                    Err(_) => {
                        Err(Some(format!("expected a whole number from 1 to 1000000000000, found {number}")))
                    }
                }
            }
            _ => Err(None),
        };
        if let Err(fault) = read {
            let fault = fault
                .unwrap_or_else(|| format!("expected {}, found {}", field.expected(), kind(value_of_type)));
            self.problem(value, format!("`{}` of {of}: {fault}", field.as_str()));
        }
    }
}

/// An unknown key, which is shown if it is near a known one. Another one may be the name of a caller, which
/// no message has.
fn unknown(kind: &str, key: &SpannedKey<'_>, near: Option<&str>, expected: &str) -> String {
    match near {
        Some(_) => format!("unknown {kind} `{}`{expected}", key.get_ref()),
        None => format!("unknown {kind}{expected}"),
    }
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

/// Where the lines of a text end, in ascending order.
pub(super) struct Lines<E = usize>(Vec<E>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end).collect())
    }
}

impl<E: PartialOrd<usize>> Lines<E> {
    /// The line of a place in the text, from 1 on.
    pub(super) fn at(&self, place: usize) -> usize {
        1 + self.0.partition_point(|end| *end < place)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    /// The end of a line that counts how often it is compared.
    struct Counted<'c>(usize, &'c Cell<u32>);

    impl PartialEq<usize> for Counted<'_> {
        fn eq(&self, other: &usize) -> bool {
            self.0 == *other
        }
    }

    impl PartialOrd<usize> for Counted<'_> {
        fn partial_cmp(&self, other: &usize) -> Option<Ordering> {
            self.1.set(self.1.get() + 1);
            self.0.partial_cmp(other)
        }
    }

    #[test]
    fn lines_count_from_1_and_end_with_their_break() {
        let lines = Lines::of("ab\n\nc");
        assert_eq!([0, 2, 3, 4, 5].map(|place| lines.at(place)), [1, 1, 2, 3, 3]);
        assert_eq!(Lines::of("").at(0), 1);
    }

    #[test]
    fn the_line_of_each_of_a_million_rows_is_found_with_at_most_21_comparisons() {
        let comparisons = Cell::new(0);
        let lines = Lines((0..1 << 20).map(|row| Counted(4 * row + 3, &comparisons)).collect());
        for row in (0..1 << 20).step_by(4_099) {
            comparisons.set(0);
            assert_eq!(lines.at(4 * row), row + 1);
            assert!((1..=21).contains(&comparisons.get()), "row {row}: {}", comparisons.get());
        }
    }
}
