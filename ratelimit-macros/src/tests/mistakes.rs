//! Mistakes of an attribute and its item: source, place and message of each, by the table in `mistakes.txt`.
//!
//! [`COMMAND`] writes the messages of the table anew, and the page that shows some of them.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};
use syn::Meta;

use super::{HANDLER, messages, tokens};
use crate::parse::args::table::ARGUMENTS;
use crate::parse::kind::Kind;

const TABLE: &str = include_str!("mistakes.txt");
const TABLE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/mistakes.txt");
const PAGE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/attribute.md");
const OVERWRITE: &str = "MISTAKES";
const COMMAND: &str = "MISTAKES=overwrite cargo test -p ratelimit-macros mistakes";

/// What is before the arguments of a case that has only these.
const BEFORE: &str = "#[rate_limit(";

/// A part of the table.
enum Part<'a> {
    /// A blank line or a comment.
    Other(&'a str),
    Case(Case<'a>),
}

struct Case<'a> {
    /// The line of the table at which it begins, from 1.
    number: usize,
    /// Its title, if the page shows it.
    title: Option<&'a str>,
    /// The lines of its source: arguments, or an attribute with its item.
    source: Vec<&'a str>,
    /// Its lines in the table: the source, with places and messages.
    text: String,
}

struct Mistake {
    /// Its line in the source, from 0.
    line: usize,
    /// Its columns in that line, from 0.
    columns: Range<usize>,
    message: String,
}

/// Whether a line of a case has a place or a message.
fn is_marker(line: &str) -> bool {
    line.trim_start().starts_with(['^', '|'])
}

fn parts(table: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut title = None;
    for (index, line) in table.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') && !line.starts_with("#[") {
            title = line.strip_prefix("## ");
            parts.push(Part::Other(line));
            continue;
        }
        match parts.last_mut() {
            Some(Part::Case(case)) if is_marker(line) || !case.has_only_arguments() => {
                if !is_marker(line) {
                    case.source.push(line);
                }
                case.text += line;
                case.text.push('\n');
            }
            _ => parts.push(Part::Case(Case {
                number: index + 1,
                title: title.take(),
                source: vec![line],
                text: format!("{line}\n"),
            })),
        }
    }
    parts
}

impl Case<'_> {
    fn has_only_arguments(&self) -> bool {
        !self.source[0].starts_with('#')
    }

    /// The attribute and its item.
    fn code(&self) -> String {
        let source = self.source.join("\n");
        if self.has_only_arguments() { format!("{BEFORE}{source})]\n{HANDLER}") } else { source }
    }

    /// What is reported, in that order.
    fn mistakes(&self) -> Vec<Mistake> {
        let number = self.number;
        let code = self.code();
        let tokens: TokenStream =
            code.parse().unwrap_or_else(|error| panic!("mistakes.txt, line {number}: {error}"));
        let mut tokens = tokens.into_iter().skip(1);
        let Some(TokenTree::Group(attribute)) = tokens.next() else {
            panic!("mistakes.txt, line {number}: a case begins with arguments or an attribute")
        };
        let errors = match syn::parse2(attribute.stream()).unwrap() {
            Meta::Path(path) if path.is_ident("no_rate_limit") => {
                vec![crate::attribute::misplaced_exemption()]
            }
            meta => {
                let kind = meta.path().get_ident().and_then(|name| Kind::named(&name.to_string())).unwrap();
                let arguments =
                    meta.require_list().map_or_else(|_| TokenStream::new(), |list| list.tokens.clone());
                crate::attribute::errors(kind, arguments, tokens.collect())
            }
        };
        let lines: Vec<&str> = code.lines().collect();
        let mistake = |error: &syn::Error| {
            let (start, mut end) = (error.span().start(), error.span().end());
            if start == end && start.column == 0 {
                // The place is the whole attribute.
                end = attribute.span().end();
            }
            let line = start.line - 1;
            let to = if end.line == start.line { end.column } else { lines[line].chars().count() };
            Mistake { line, columns: start.column..to.max(start.column + 1), message: error.to_string() }
        };
        errors.iter().map(mistake).collect()
    }

    /// The source with its places and messages. `last_line` is that of the last message of several lines
    /// above.
    fn with_mistakes(&self, last_line: &mut String) -> String {
        let mistakes = self.mistakes();
        let before = if self.has_only_arguments() { BEFORE.len() } else { 0 };
        let mut text = String::new();
        for (index, line) in self.source.iter().enumerate() {
            text += line;
            text.push('\n');
            for mistake in mistakes.iter().filter(|mistake| mistake.line == index) {
                let Range { start, end } = mistake.columns;
                let (start, end) = (start.saturating_sub(before), end - before);
                let mut message: Vec<&str> = mistake.message.lines().collect();
                let mut ditto = "";
                if let [_, .., last] = message[..] {
                    if last == last_line {
                        message.pop();
                        ditto = " ..";
                    }
                    last.clone_into(last_line);
                }
                let carets = format!("{}{}", " ".repeat(start), "^".repeat(end - start));
                _ = write!(text, "{carets} {}", message[0]);
                for line in &message[1..] {
                    _ = write!(text, "\n{}| {line}", " ".repeat(end - 1));
                }
                text += ditto;
                text.push('\n');
            }
        }
        for mistake in mistakes.iter().filter(|mistake| mistake.line >= self.source.len()) {
            // Only for the report: such a case has to be written with its item.
            _ = writeln!(text, "| in the item: {}", mistake.message);
        }
        text
    }

    /// The report of the compiler, as the page shows it.
    fn report(&self) -> String {
        // As below a doc comment and two imports.
        const FIRST_LINE: usize = 6;
        let code = self.code();
        let reports = self.mistakes().into_iter().map(|mistake| {
            let Mistake { line, columns, message } = mistake;
            let (number, column) = (FIRST_LINE + line, columns.start + 1);
            let (blank, source) = (" ".repeat(number.to_string().len()), code.lines().nth(line).unwrap());
            let carets = format!("{}{}", " ".repeat(columns.start), "^".repeat(columns.len()));
            let message = message.replace('\n', "\n       ");
            format!(
                "error: {message}\n{blank}--> src/api.rs:{number}:{column}\n{blank} |\n{number} | {source}\n{blank} | {carets}\n"
            )
        });
        reports.collect::<Vec<_>>().join("\n")
    }
}

fn overwrites() -> bool {
    std::env::var_os(OVERWRITE).is_some_and(|value| value == "overwrite")
}

#[test]
fn every_case_has_the_mistakes_of_the_table() {
    let (mut table, mut wrong, mut cases) = (String::new(), String::new(), 0);
    let mut last_line = String::new();
    for part in parts(TABLE) {
        let case = match part {
            Part::Other(line) => {
                table += line;
                table.push('\n');
                continue;
            }
            Part::Case(case) => case,
        };
        let found = case.with_mistakes(&mut last_line);
        if case.text != found {
            _ = write!(
                wrong,
                "\nmistakes.txt, line {}, expected:\n{}found:\n{found}",
                case.number, case.text
            );
        }
        table += &found;
        cases += 1;
    }
    if overwrites() {
        fs::write(TABLE_PATH, table).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{wrong}\nif the messages are right, write them into the table: {COMMAND}\n");
    assert!(cases > 300, "only {cases} cases");
}

#[test]
fn every_argument_has_a_mistake() {
    for row in ARGUMENTS {
        let message = format!("`{}` ", row.name);
        let is_reported = parts(TABLE).into_iter().any(|part| match part {
            Part::Case(case) => case.mistakes().iter().any(|mistake| mistake.message.starts_with(&message)),
            Part::Other(_) => false,
        });
        assert!(is_reported, "mistakes.txt has no mistake that begins with {message}");
    }
}

#[test]
fn messages_of_mistakes_begin_in_lower_case_and_end_without_a_period() {
    for part in parts(TABLE) {
        let Part::Case(case) = part else { continue };
        for Mistake { message, .. } in case.mistakes() {
            assert!(!message.starts_with(char::is_uppercase) && !message.ends_with('.'), "{message}");
        }
    }
}

// Too long for the table.
#[test]
fn a_handler_has_at_most_64_limits() {
    let handler =
        |limits: usize| tokens(&format!("{} async fn user() {{}}", "#[rate_limit] ".repeat(limits - 1)));
    assert!(messages(TokenStream::new(), handler(64)).is_empty());
    let message = "a handler can have at most 64 limits, found 65; remove some";
    assert_eq!(messages(TokenStream::new(), handler(65)), [message]);
}

#[test]
fn the_page_shows_the_likeliest_mistakes() {
    const BEGIN: &str =
        "<!-- begin generated: MISTAKES=overwrite cargo test -p ratelimit-macros mistakes -->\n";
    const END: &str = "<!-- end generated -->";
    // The published crate does not contain the page.
    let Ok(page) = fs::read_to_string(PAGE_PATH) else { return };
    let mut shown = String::new();
    let cases = parts(TABLE).into_iter().filter_map(|part| match part {
        Part::Case(case) => Some((case.title?, case.report())),
        Part::Other(_) => None,
    });
    for (index, (title, report)) in cases.enumerate() {
        _ = write!(shown, "\n### {}. {title}\n\n```text\n{report}```\n", index + 1);
    }
    shown.push('\n');
    let begin = page.find(BEGIN).unwrap() + BEGIN.len();
    let end = begin + page[begin..].find(END).unwrap();
    if overwrites() {
        fs::write(PAGE_PATH, format!("{}{shown}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert!(page[begin..end] == shown, "docs/attribute.md is out of date; {COMMAND}");
}
