//! A process that forks, with a limiter in memory.

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
fn what_a_child_drops_stays_its_parents() {
    let [in_child, in_parent] = ["child slot true turn true task 1", "parent slot false turn false task 0"];
    assert_eq!(forker(&["drop"]), [in_child, in_parent]);
}
