//! Pictures of the tables of `docs/accuracy.md`: errors, and the most requests in any window.

use plotters::prelude::*;

use crate::canvas::{BLUE, Drawing, GREEN, GREY, ORANGE, coordinate, picture, text};

/// What is drawn of one row.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    /// Shares of all requests, in ten thousandths of a percent.
    wrongly_passed: u64,
    wrongly_denied: u64,
    most: u64,
}

/// One table of the page.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    rows: Vec<Row>,
}

/// The two tables of the page, in order.
pub(crate) fn tables(page: &str) -> Vec<Table> {
    let tables: Vec<_> = page.split("\n### ").skip(1).map(table).collect();
    assert_eq!(tables.len(), 2, "docs/accuracy.md has a table for each mix of traffic");
    tables
}

fn table(section: &str) -> Table {
    let title = section.lines().next().unwrap_or_default().to_owned();
    let lines = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows: Vec<_> = lines.skip(1).take_while(|line| line.starts_with('|')).map(row).collect();
    assert!(!rows.is_empty(), "{title} has no table");
    Table { title, rows }
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} in {line} is no number"));
    // Four decimals, as the simulation prints them.
    let percent = |text: &str| number(&text.replace([' ', '%', '.'], ""));
    Row {
        name: cells[0].to_owned(),
        wrongly_passed: percent(cells[2]),
        wrongly_denied: percent(cells[3]),
        most: number(cells[5]),
    }
}

const ROW: i32 = 30;
const HEAD: i32 = 62;
/// The left edges of the two groups of bars, and the length of their longest bar.
const ERRORS: i32 = 240;
const MOST: i32 = 560;
const LONGEST: u64 = 200;

pub(crate) fn draw(table: &Table) -> String {
    let rows = coordinate(table.rows.len() as u64);
    let height = u32::try_from(HEAD + ROW * rows + 34).expect("a picture has small numbers");
    let errors = table.rows.iter().map(|row| row.wrongly_passed + row.wrongly_denied).max().unwrap_or(1);
    let most = table.rows.iter().map(|row| row.most).max().unwrap_or(1);
    let length = |value: u64, longest: u64| coordinate(value * LONGEST / longest);
    picture((860, height), |area| {
        text(area, &table.title, (14, 8), BLACK)?;
        text(area, "wrongly passed", (ERRORS, 36), ORANGE)?;
        text(area, "and wrongly denied", (ERRORS + 102, 36), BLUE)?;
        text(area, "most in any 60 s; max = 100", (MOST, 36), BLACK)?;
        for (number, row) in (0..).zip(&table.rows) {
            let y = HEAD + ROW * number;
            text(area, &row.name, (14, y + 4), BLACK)?;
            let middle = ERRORS + length(row.wrongly_passed, errors);
            let end = middle + length(row.wrongly_denied, errors);
            bar(area, (ERRORS, middle), y, ORANGE)?;
            bar(area, (middle, end), y, BLUE)?;
            let sum = row.wrongly_passed + row.wrongly_denied;
            text(
                area,
                format!("{}.{:02} %", (sum + 50) / 10_000, (sum + 50) % 10_000 / 100),
                (end + 6, y + 4),
                BLACK,
            )?;
            let end = MOST + length(row.most, most);
            bar(area, (MOST, end), y, GREEN)?;
            text(area, row.most.to_string(), (end + 6, y + 4), BLACK)?;
        }
        let max = MOST + length(100, most);
        let line = PathElement::new([(max, HEAD - 4), (max, HEAD + ROW * rows)], GREY.stroke_width(2));
        area.draw(&line).map_err(|error| error.to_string())
    })
}

fn bar(area: &Drawing<'_>, (from, to): (i32, i32), y: i32, color: RGBColor) -> Result<(), String> {
    let bar = Rectangle::new([(from, y), (to, y + ROW - 10)], color.filled());
    area.draw(&bar).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Row, row};

    #[test]
    fn a_row_has_the_numbers_of_the_page() {
        let line = "| fixed window | 12.7847 % | 7.3086 % | 5.4761 % | 0 | 200 | 13.5479 % | 45.3776 % |";
        let expected = Row {
            name: "fixed window".to_owned(),
            wrongly_passed: 73_086,
            wrongly_denied: 54_761,
            most: 200,
        };
        assert_eq!(row(line), expected);
    }
}
