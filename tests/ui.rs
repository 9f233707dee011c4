//! What the compiler says: every mistake in the attribute, one a file, and every form that is accepted.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write;
use std::process::Command;

/// The expectations hold only errors of the attribute itself; but how rustc draws them differs between releases.
const RELEASE: &str = "rustc 1.95.";

#[test]
fn mistakes_are_told_and_every_form_compiles() {
    let version =
        Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(RELEASE) {
        // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
        let line = format!("skipped: the ui tests are for {RELEASE}x, and this is {version}");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/fail/*.rs");
}
