//! Errors of overrides: all mistakes of one source at once.

use std::fmt;

/// Largest number of problems that the text of an error lists.
const LISTED: usize = 8;

/// Number of problems after which no further ones are looked for.
const MAX_PROBLEMS: usize = 100;

/// Overrides that cannot be used: what is wrong, all at once. Nothing of them is in force.
///
/// After 100 different mistakes no further ones are looked for, so that a large file with a mistake in every
/// row is rejected soon.
///
/// The text is one line. It has names of limits and plans as they were written, and no name of the table
/// `callers`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name} cannot be used: {}", Listed { problems, may_have_more: *.may_have_more })]
pub struct OverridesError {
    source_name: String,
    problems: Vec<Problem>,
    /// Whether the search ended before the end of the source.
    may_have_more: bool,
}

/// As `Display`: this is what a `main` prints that returns the error.
impl fmt::Debug for OverridesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One mistake in overrides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    line: Option<usize>,
    text: String,
}

impl Problem {
    /// A text on one line: names in a file may have control characters, which are escaped.
    fn new(line: Option<usize>, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.contains(char::is_control) {
            let escaped =
                |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
            text = text.chars().map(escaped).collect();
        }
        Self { line, text }
    }

    /// The line in the file or text, from 1 on. `None` if the problem has no line.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// What is wrong, and what was expected.
    pub fn message(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The problems of one source while they are looked for. Each is there once, however many limits of a name
/// repeat it.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, line: Option<usize>, text: impl Into<String>) {
        let problem = Problem::new(line, text);
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no further problems are looked for.
    pub(super) fn is_enough(&self) -> bool {
        self.0.len() >= MAX_PROBLEMS
    }

    /// What was found if there are no problems.
    pub(super) fn or<T>(self, found: T) -> Result<T, Self> {
        if self.is_empty() { Ok(found) } else { Err(self) }
    }
}

impl OverridesError {
    /// Mistakes in the order of their lines.
    pub(super) fn new(source_name: &str, problems: Problems) -> Self {
        let may_have_more = problems.is_enough();
        let Problems(mut problems) = problems;
        problems.sort_by_key(|problem| problem.line);
        Self { source_name: source_name.to_owned(), problems, may_have_more }
    }

    pub(super) fn one(source_name: &str, text: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.push(None, text);
        Self::new(source_name, problems)
    }

    /// The mistakes, up to about 100, in the order of their lines.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// The first problems, on one line.
struct Listed<'a> {
    problems: &'a [Problem],
    may_have_more: bool,
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().take(LISTED).enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        match self.problems.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more if self.may_have_more => write!(f, "; and at least {more} more"),
            more => write!(f, "; and {more} more"),
        }
    }
}
