//! Tests of what a process has only one of: the installed limiter, a warning that is given once.

use std::env;
use std::ffi::OsString;
use std::process::Command;

/// Set in a process that was started for one test.
const MARK: &str = "RATELIMIT_TESTS_OWN_PROCESS";

/// Runs `body` in a process of its own: starts the test named `test` of this very binary once more, alone.
pub fn in_own_process(test: &str, body: impl FnOnce()) {
    in_own_process_with(test, || Some(Vec::new()), body);
}

/// The same, with more variables in its environment; when there are none to be had, the test is skipped. What `variables`
/// has made lives until `body` has ended.
pub fn in_own_process_with(
    test: &str,
    variables: impl FnOnce() -> Option<Vec<(String, OsString)>>,
    body: impl FnOnce(),
) {
    if env::var_os(MARK).is_some() {
        return body();
    }
    let Some(variables) = variables() else { return };
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(MARK, "1")
        .envs(variables)
        .output()
        .unwrap();
    let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{test} failed:\n{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "there is no test named {test}:\n{stdout}");
    // What it has measured.
    print!("{stdout}");
}
