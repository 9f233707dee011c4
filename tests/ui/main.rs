//! That the compiler shows mistakes as they are expected. Accepted forms are programs of the package in
//! `pass/`.
//!
//! `ratelimit-macros/src/tests/mistakes.txt` has all mistakes. Here are one or two of each file that reports
//! some, and those that `docs/attribute.md` shows. `TRYBUILD=overwrite cargo test -p ui` writes the
//! expectations anew; read the difference like code.

#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::collections::BTreeSet;
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

/// A case for each file of the attribute that reports mistakes.
const OF_FILES: [(&str, &str); 35] = [
    ("attribute.rs", "exempt_of_nothing"),
    // What is left of the item causes no further mistakes.
    ("expand/fallback.rs", "several_attributes"),
    ("expand/fallback.rs", "module_mistakes"),
    ("parse/args.rs", "concurrency_window"),
    ("parse/args.rs", "unknown_argument"),
    ("parse/code/by.rs", "by_unknown_call"),
    ("parse/code/extractor_type.rs", "by_closure_reads_json"),
    ("parse/code/request_fn.rs", "by_closure_untyped"),
    ("parse/code/request_fn.rs", "plan_string"),
    ("parse/code/request_fn.rs", "skip_path"),
    ("parse/items/members.rs", "on_trait_impl"),
    ("parse/items/route.rs", "key_unknown_parameter"),
    ("parse/values/calendar.rs", "calendar_without_feature"),
    ("parse/values/choice.rs", "algorithm_sliding_window"),
    ("parse/values/choice.rs", "mode_unknown"),
    ("parse/values/name.rs", "key_unclosed_brace"),
    ("parse/values/number.rs", "max_zero"),
    ("parse/values/path.rs", "crate_relative"),
    ("parse/values/path.rs", "inner_string"),
    ("parse/values/path.rs", "policy_quoted"),
    ("parse/values/window.rs", "lease_number"),
    ("parse/values/window.rs", "window_integer"),
    ("validate/arguments.rs", "concurrency_without_max"),
    ("validate/arguments.rs", "key_and_by"),
    ("validate/container.rs", "on_module_without_handlers"),
    // The condition is the compiler's to read.
    ("validate/container.rs", "module_conditional"),
    ("validate/calendar.rs", "calendar_zone_alone"),
    ("validate/counts.rs", "charged_twice"),
    ("validate/extractors.rs", "on_impl_trait_argument"),
    ("validate/spec.rs", "exempt_and_limited"),
    ("validate/handler.rs", "on_non_async_fn"),
    ("validate/handler.rs", "on_self_type"),
    ("validate/inherited.rs", "inner_on_module"),
    ("validate/arguments.rs", "lease_log"),
    ("validate/spec.rs", "cost_over_max"),
];

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

#[test]
fn every_file_that_reports_mistakes_has_a_case() {
    let cases: BTreeSet<String> = failing().into_iter().map(|(case, _)| case).collect();
    for (file, case) in OF_FILES {
        assert!(cases.contains(case), "{file} has no case {case}");
    }
    let macros = path("../../ratelimit-macros/src");
    for folder in ["parse", "parse/values", "parse/code", "parse/items", "validate"] {
        for file in fs::read_dir(macros.join(folder)).unwrap() {
            let file = file.unwrap().path();
            if file.is_dir() {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let reports =
                [".error(", ".error_at(", "diagnostics.push("].iter().any(|call| text.contains(call));
            let name = file.strip_prefix(&macros).unwrap().to_str().unwrap();
            assert_eq!(
                reports,
                OF_FILES.iter().any(|(file, _)| *file == name),
                "whether {name} reports mistakes, and has a case in OF_FILES"
            );
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
