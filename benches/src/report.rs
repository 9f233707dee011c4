//! The report: every goal beside what was measured, then the sections with their tables and plots, then what explains them.

mod goal;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

pub use self::goal::{Goal, Row};
use crate::svg::Plot;
use crate::table::Table;

/// What has been found out so far; everything is printed as it comes in.
#[derive(Debug, Default)]
pub struct Report {
    goals: Vec<Goal>,
    body: String,
    plots: Vec<(String, String)>,
}

impl Report {
    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.push(&format!("\n## {title}\n"));
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
        let _ = writeln!(self.body, "\n![{}]({file}.svg)", plot.title);
        self.plots.push((format!("{file}.svg"), plot.draw()));
    }

    /// Something that a goal says.
    pub fn goal(&mut self, goal: Goal) {
        println!("{goal}");
        self.goals.push(goal);
    }

    fn push(&mut self, text: &str) {
        print!("{text}");
        self.body.push_str(text);
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

    /// Writes `README.md` and the plots.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path, form: &str, machine: &str) -> io::Result<()> {
        let mut text = String::new();
        let _ = writeln!(text, "# Benchmark report, {form} form\n");
        let _ = writeln!(text, "Machine: {machine}.\n");
        let _ = writeln!(text, "{}", include_str!("report/preface.md"));
        let _ = writeln!(text, "## Goals\n\n{}", self.goals());
        let _ = write!(text, "{}", include_str!("report/fairness.md"));
        text.push_str(&self.body);
        let _ = write!(text, "\n{}", include_str!("report/profile.md"));
        fs::create_dir_all(folder)?;
        fs::write(folder.join("README.md"), text)?;
        for (file, svg) in &self.plots {
            fs::write(folder.join(file), svg)?;
        }
        Ok(())
    }
}
