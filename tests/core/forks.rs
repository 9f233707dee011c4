//! A limiter in memory that was made before a fork: what needs a thread works in the child, too.

use tests::program::lines;

fn forker(case: &[&str]) -> Vec<String> {
    lines(env!("CARGO_BIN_EXE_forker"), case)
}

#[test]
fn waits_end_in_a_child_of_a_process_that_has_waited() {
    assert_eq!(forker(&["wait"]), ["child has waited", "parent has waited"]);
}

#[test]
fn a_wait_that_began_before_a_fork_ends_in_both_processes() {
    assert_eq!(forker(&["amid a wait"]), ["child has waited", "parent has waited"]);
}

#[test]
fn a_watched_file_is_read_in_a_child() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    assert_eq!(forker(&["watch", path.to_str().unwrap()]), ["child has read", "parent has read"]);
}
