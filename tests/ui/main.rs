//! That the compiler shows mistakes as they are expected. Accepted forms are programs of the package in
//! `pass/`.
//!
//! `ratelimit-macros/src/tests/mistakes.txt` has all mistakes. Here are those that `docs/attribute.md` shows,
//! one for each kind of place, such as a type of several tokens or the whole attribute, and what the
//! compiler reports beside them. `TRYBUILD=overwrite cargo test -p ui` writes the expectations anew; read the
//! difference like code.

#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler that wrote the expectations: another one may place or draw an error differently.
const COMPILER: &str = "rustc 1.95.";

/// Set by `run.sh`: another compiler is a failure then, not a reason to skip the test.
const REQUIRED: &str = "UI_REQUIRED";

#[test]
fn mistakes_fail_as_expected() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(COMPILER) {
        assert!(
            std::env::var_os(REQUIRED).is_none(),
            "needs {COMPILER}x, this is {version}, and {REQUIRED} is set"
        );
        // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
        let line = format!("skipped: mistakes_fail_as_expected needs {COMPILER}x, this is {version}");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    // With a case that passes, all would be built one by one, and the dependencies too, instead of checked.
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    // Code of the user with a type that does not fit, or a missing import: the compiler words these, at that
    // code.
    cases.compile_fail("types/*.rs");
}

/// The path of a file from the folder of this package.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Each case that fails, with what the compiler reports.
fn failing() -> Vec<(String, String)> {
    let files = fs::read_dir(path("fail")).unwrap().map(|file| file.unwrap().path());
    let sources = files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let case = |file: PathBuf| {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(file.with_extension("stderr")).unwrap())
    };
    sources.map(case).collect()
}

/// A message that the compiler words itself would change with the compiler, and with the traits of Actix.
#[test]
fn expectations_contain_only_messages_of_the_attribute() {
    for (case, report) in failing() {
        assert!(report.starts_with("error: "), "{case}");
        for line in report.lines() {
            assert!(!line.starts_with("error[") && !line.starts_with("warning"), "{case}: {line}");
        }
    }
}

/// The messages, sources and places of a report, without the numbers of lines.
fn plain(report: &str) -> Vec<&str> {
    let lines = report.lines().filter(|line| !line.trim_start().starts_with("-->"));
    let plain = lines.map(|line| match line.split_once(" |") {
        Some((number, source)) if number.trim().parse::<u32>().is_ok() || number.trim().is_empty() => source,
        _ => line,
    });
    plain.map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// The page is made from the table of mistakes: here the compiler confirms it.
#[test]
fn the_page_shows_what_the_compiler_reports() {
    let page = fs::read_to_string(path("../../docs/attribute.md")).unwrap();
    let reports = failing();
    let mut shown = 0;
    for section in page.split("```text\n").skip(1).filter(|section| section.starts_with("error: ")) {
        let section = plain(section.split("```").next().unwrap());
        assert!(reports.iter().any(|(_, report)| plain(report) == section), "no case for {section:#?}");
        shown += 1;
    }
    assert!(shown >= 3, "{shown}");
}
