//! Tests in a process of their own: for the installed limiter, warnings that are logged once, and other state
//! of a process.

use std::any::type_name;
use std::env;
use std::ffi::OsString;
use std::process::Command;

/// Set in a process that was started for one test.
const MARK: &str = "RATELIMIT_TESTS_OWN_PROCESS";

/// Runs `body` in a process of its own: starts the calling test of this very binary once more, alone.
///
/// The test is found by the name of `body`, which must be a closure in the test's own function.
pub fn in_own_process<F: FnOnce()>(body: F) {
    in_own_process_with(|| Some(Vec::new()), body);
}

/// The same, with more variables in its environment; when there are none to be had, the test is skipped. What
/// `variables` has made lives until `body` has ended.
pub fn in_own_process_with<F: FnOnce()>(
    variables: impl FnOnce() -> Option<Vec<(String, OsString)>>,
    body: F,
) {
    if env::var_os(MARK).is_some() {
        return body();
    }
    let Some(variables) = variables() else { return };
    // `binary::module::test::{{closure}}`
    let closure = type_name::<F>();
    let (module, test) = closure.trim_end_matches("::{{closure}}").rsplit_once("::").unwrap();
    let test = &test_path(module, test);
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

/// What the test harness calls the test `test` of `module`, a `module_path!()`: the same without the name of
/// the binary.
pub fn test_path(module: &str, test: &str) -> String {
    let module = module.split_once("::").map_or(String::new(), |(_, inner)| format!("{inner}::"));
    format!("{module}{test}")
}
