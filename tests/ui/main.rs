//! What the attribute says about mistakes, word for word, and that every accepted form compiles and starts.
//!
//! `TRYBUILD=overwrite cargo test -p ui` writes the expectations anew; read the difference like code.

#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::io::Write;
use std::process::Command;

/// The compiler that wrote the expectations: another one may place or draw an error differently.
const COMPILER: &str = "rustc 1.95.";

/// Set by `run.sh`: another compiler is a failure then, not a reason to skip the test.
const REQUIRED: &str = "UI_REQUIRED";

#[test]
fn mistakes_fail_as_expected_and_accepted_forms_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(COMPILER) {
        assert!(
            std::env::var_os(REQUIRED).is_none(),
            "needs {COMPILER}x, this is {version}, and {REQUIRED} is set"
        );
        // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
        let line = format!(
            "skipped: mistakes_fail_as_expected_and_accepted_forms_compile needs {COMPILER}x, this is {version}"
        );
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
}

/// A message that the compiler words itself would change with the compiler, and with the traits of Actix.
#[test]
fn expectations_contain_only_messages_of_the_attribute() {
    let mut cases = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fail")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        cases += 1;
        let expected = std::fs::read_to_string(file.with_extension("stderr")).unwrap();
        assert!(expected.starts_with("error: "), "{}", file.display());
        for line in expected.lines() {
            assert!(!line.starts_with("error["), "{}: {line}", file.display());
            assert!(!line.starts_with("warning"), "{}: {line}", file.display());
        }
    }
    assert!(cases >= 100, "{cases}");
}

/// The most frequent mistakes in the order of the page: title, and the case that shows it.
const LIKELIEST: [(&str, &str); 21] = [
    ("The names of another rate limiter", "spring_spelling"),
    ("A misspelled argument", "unknown_argument"),
    ("Values without names", "positional"),
    ("A window without a unit", "window_integer"),
    ("A spelled-out unit", "window_spelled_unit"),
    ("A `max` of zero", "max_zero"),
    ("A number in quotes", "max_quoted"),
    ("An ambiguous algorithm", "algorithm_sliding_window"),
    ("A cost above `max`", "cost_over_max"),
    ("A placeholder that the route does not have", "key_unknown_parameter"),
    ("A placeholder that is not closed", "key_unclosed_brace"),
    ("Two definitions of the caller", "key_and_by"),
    ("A misspelled caller", "by_unknown_call"),
    ("A caller in quotes", "by_string"),
    ("A closure without types", "by_closure_untyped"),
    ("A caller from the body", "by_closure_reads_json"),
    ("A function without `with`", "skip_path"),
    ("A handler that is not async", "on_non_async_fn"),
    ("`Self` in a handler with an attribute of its own", "on_self_type"),
    ("A module without handlers", "on_module_without_handlers"),
    ("Two limits with one count", "charged_twice"),
];

/// Compares the generated part of the page with the expectations of the tests. `UPDATE_DOCS=1` rewrites it.
#[test]
fn the_page_shows_the_likeliest_mistakes() {
    const BEGIN: &str = "<!-- begin generated: UPDATE_DOCS=1 cargo test -p ui the_page -->\n";
    const END: &str = "<!-- end generated -->";
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mistake = |(number, (title, case)): (usize, (&str, &str))| {
        let expected = std::fs::read_to_string(tests.join(format!("fail/{case}.stderr"))).unwrap();
        // The reader's file has another name.
        let expected = expected.replace(&format!("fail/{case}.rs"), "src/api.rs");
        format!("\n### {}. {title}\n\n```text\n{}\n```\n", number + 1, expected.trim_end())
    };
    let mut sheet: String = LIKELIEST.into_iter().enumerate().map(mistake).collect();
    sheet.push('\n');
    let page = tests.join("../../docs/attribute.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let begin = text.find(BEGIN).unwrap() + BEGIN.len();
    let end = begin + text[begin..].find(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, format!("{}{sheet}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    assert!(text[begin..end] == sheet, "docs/attribute.md is out of date; {}", &BEGIN[5..BEGIN.len() - 5]);
}
