//! The report: every goal beside what was measured, then the sections with their conclusions, tables and
//! plots, then what explains them.

mod goal;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

pub use self::goal::{Goal, Row};
use crate::plot::Plot;
use crate::table::Table;

/// What has been found out so far; everything is printed as it comes in.
#[derive(Debug, Default)]
pub struct Report {
    goals: Vec<Goal>,
    sections: Vec<Section>,
    plots: Vec<(String, String)>,
}

/// A part of the report under one title.
#[derive(Debug)]
struct Section {
    title: String,
    conclusion: Option<String>,
    body: String,
}

impl Report {
    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        println!("\n## {title}");
        self.sections.push(Section { title: title.to_owned(), conclusion: None, body: String::new() });
    }

    /// One line about what a user should conclude from the section. The report has it below the title.
    ///
    /// # Panics
    ///
    /// Before the first section.
    pub fn conclude(&mut self, conclusion: &str) {
        println!("\n> {conclusion}");
        let section = self.sections.last_mut().expect("a conclusion belongs to a section");
        section.conclusion = Some(conclusion.to_owned());
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) {
        self.push(&format!("\n{text}\n"));
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.push(&format!("\n{table}"));
    }

    /// A plot, in a file of its own.
    pub fn plot(&mut self, file: &str, plot: &Plot) {
        self.plots.push((format!("{file}.svg"), plot.draw()));
        self.push(&format!("\n![{}]({file}.svg)\n", plot.title));
    }

    /// Something that a goal says.
    pub fn goal(&mut self, goal: Goal) {
        println!("{goal}");
        self.goals.push(goal);
    }

    /// Says that the section of this name ended early, in the place where the rest of it would be.
    ///
    /// `began_with` is the number of [titles](Self::titles) before it ran.
    pub fn failed(&mut self, name: &str, began_with: usize, error: &str) {
        if self.sections.len() == began_with {
            self.section(&format!("Section `{name}`"));
        }
        self.text(&format!(
            "**This section failed; what follows is missing.** The error:\n\n```text\n{error}\n```"
        ));
    }

    /// The number of titles so far.
    pub const fn titles(&self) -> usize {
        self.sections.len()
    }

    fn push(&mut self, text: &str) {
        print!("{text}");
        if let Some(section) = self.sections.last_mut() {
            section.body.push_str(text);
        } else {
            self.sections.push(Section { title: String::new(), conclusion: None, body: text.to_owned() });
        }
    }

    /// The goals as a table, in their order; those about which nothing was found out as well.
    pub fn goals(&self) -> Table {
        let mut table = Table::new(["what", "goal", "measured", "met"]);
        for row in Row::ALL {
            let mut found = self.goals.iter().filter(|goal| goal.row == row).peekable();
            if found.peek().is_none() {
                let (measured, met) = row.elsewhere().unwrap_or(("not in this run", "–"));
                table.row([row.what(), row.goal(), measured, met]);
            }
            for goal in found {
                let what = format!("{}: {}", row.what(), goal.what);
                let met = if goal.is_met { "yes" } else { "**no**" };
                table.row([&what, &goal.aim, &goal.measured, met]);
            }
        }
        table
    }

    /// The text of `README.md`.
    pub fn readme(&self, form: &str, machine: &str) -> String {
        let mut text = format!("# Benchmark report, {form} form\n\nMachine: {machine}.\n\n");
        text.push_str(include_str!("report/preface.md"));
        let _ = writeln!(text, "\n## Goals\n\n{}", self.goals());
        text.push_str(include_str!("report/fairness.md"));
        for section in &self.sections {
            if !section.title.is_empty() {
                let _ = writeln!(text, "\n## {}", section.title);
            }
            if let Some(conclusion) = &section.conclusion {
                let _ = writeln!(text, "\n> {conclusion}");
            }
            text.push_str(&section.body);
        }
        let _ = write!(text, "\n{}", include_str!("report/profile.md"));
        text
    }

    /// Writes `README.md` and the plots.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path, form: &str, machine: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("README.md"), self.readme(form, machine))?;
        for (file, svg) in &self.plots {
            fs::write(folder.join(file), svg)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conclusion_stands_above_what_it_was_concluded_from() {
        let mut report = Report::default();
        report.section("First");
        report.text("measured");
        report.conclude("concluded");
        report.section("Second");
        let text = report.readme("quick", "a machine");
        assert!(text.contains("\n## First\n\n> concluded\n\nmeasured\n\n## Second\n"), "{text}");
    }

    #[test]
    fn an_error_stands_where_the_section_ended() {
        let mut report = Report::default();
        report.section("First");
        report.text("what was measured before");
        report.failed("first", 0, "no route");
        report.failed("second", 1, "no host");
        let text = report.readme("quick", "a machine");
        let places = ["## First", "what was measured before", "no route", "## Section `second`", "no host"];
        let places = places.map(|part| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}")));
        assert!(places.is_sorted(), "{text}");
    }
}
