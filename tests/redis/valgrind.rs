//! A program with a Redis store under valgrind, which hides the machine's vDSO. Without valgrind the test is
//! skipped, visibly; that is a failure if `VALGRIND_REQUIRED` is set.

use std::io::Write;
use std::process::Command;

use tests::program::lines;
use tests::redis::server;

#[test]
fn a_program_with_a_redis_store_runs_under_valgrind() {
    let Some(server) = server() else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(std::env::var_os("VALGRIND_REQUIRED").is_none(), "a program under valgrind needs valgrind");
        // Not `eprintln!`, which the test harness captures.
        std::io::stderr().write_all(b"skipped: a program under valgrind needs valgrind\n").unwrap();
        return;
    }
    // No tool of valgrind: the test is about the program's start.
    let program = env!("CARGO_BIN_EXE_forker");
    let found = lines("valgrind", &["--quiet", "--tool=none", program, "own", &server.url()]);
    let expected =
        ["parent decided 9 1", "grandchild decided 8 1", "child decided 7 1", "parent decided 6 1"];
    assert_eq!(found, expected);
}
