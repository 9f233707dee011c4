//! What the pages show: the commands of their transcripts, run, and their pictures.
//!
//! `UPDATE_DOCS=1 cargo test -p examples --features replay --example replay` writes both anew.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::ran;

/// Before the arguments of the program.
const PROGRAM: &str = "$ cargo run --release --example replay --features replay -- ";
const FENCE: &str = "```";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a command of a page. Logs and pictures are in a temporary folder, limits in the repository.
fn output(folder: &TempDir, command: &str) -> String {
    let (arguments, file) = match command.split_once(" > ") {
        Some((arguments, file)) => (arguments, Some(file)),
        None => (command, None),
    };
    let path = |argument: &str| match Path::new(argument).extension().and_then(|extension| extension.to_str())
    {
        Some("toml") => repository().join(argument).to_str().unwrap().to_owned(),
        Some("log") => format!("FOLDER/{argument}"),
        _ => argument.to_owned(),
    };
    let arguments: Vec<_> = arguments
        .split_whitespace()
        .map(path)
        .chain(["--pictures".to_owned(), "FOLDER".to_owned()])
        .collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (printed, error) = ran(folder, &arguments, "");
    assert_eq!(error, None, "{command}");
    match file {
        Some(file) => {
            fs::write(folder.path().join(file), printed).unwrap();
            String::new()
        }
        None => printed.replace("FOLDER/", "./"),
    }
}

/// The page with what its commands print now.
fn with_outputs(folder: &TempDir, page: &str) -> String {
    let (mut text, mut is_output) = (String::new(), false);
    for line in page.lines() {
        if let Some(command) = line.strip_prefix(PROGRAM) {
            text.extend([line, "\n", &output(folder, command)]);
            is_output = true;
        } else if line.starts_with(FENCE) || line.starts_with("$ ") || !is_output {
            text.extend([line, "\n"]);
            is_output = false;
        }
    }
    text
}

/// Compares a file with its text as it has to be, or writes it.
fn is_current(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    assert!(there == text, "{} is out of date; see the head of this file\n{text}", path.display());
}

#[test]
fn the_pages_show_what_the_commands_print() {
    for page in ["docs/numbers.md", "examples/README.md"] {
        let (folder, path) = (tempfile::tempdir().unwrap(), repository().join(page));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.matches(PROGRAM).count() >= 2, "{page} has no transcript");
        is_current(&path, &with_outputs(&folder, &text));
    }
}

#[test]
fn the_pictures_are_those_of_the_made_up_day() {
    let folder = tempfile::tempdir().unwrap();
    output(&folder, "--made-up-day > day.log");
    output(&folder, "examples/replay/limits.toml day.log");
    for limit in ["items", "login", "search"] {
        let drawn = fs::read_to_string(folder.path().join(format!("replay-{limit}.svg"))).unwrap();
        is_current(&repository().join(format!("docs/numbers/{limit}.svg")), &drawn);
    }
}
