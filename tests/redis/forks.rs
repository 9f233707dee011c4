//! A process that forks, with a limiter over Redis: it stays the parent's, and a child makes one of its own.

use tests::program::lines;
use tests::redis::{Server, server};

fn forker(server: &Server, case: &[&str]) -> Vec<String> {
    server.must("FLUSHALL");
    let url = server.url();
    lines(env!("CARGO_BIN_EXE_forker"), &[&case[..1], &[&url], &case[1..]].concat())
}

#[test]
fn calls_in_a_child_fail_with_one_line_whatever_the_failure_policy_is() {
    let Some(server) = server() else { return };
    let [parent, grandchild, child, again] = &forker(&server, &["calls"])[..] else { panic!("four lines") };
    assert_eq!([parent, again], ["parent decided 9 1", "parent decided 6 1"]);
    assert_eq!(
        child,
        "child the limiter was made before a fork, by the parent of this process; make it after the fork"
    );
    assert_eq!(grandchild.matches("the limiter was made before a fork").count(), 1, "{grandchild}");
    assert!(
        grandchild.contains("make the limiter after the fork") && !grandchild.contains('|'),
        "{grandchild}"
    );
}

#[test]
fn a_limiter_that_a_child_makes_charges_the_same_counts() {
    let Some(server) = server() else { return };
    // The number of connections that each process has made is 1.
    let expected =
        ["parent decided 9 1", "grandchild decided 8 1", "child decided 7 1", "parent decided 6 1"];
    assert_eq!(forker(&server, &["own"]), expected);
}

#[test]
fn a_slot_stays_its_parents_when_a_child_drops_it() {
    let Some(server) = server() else { return };
    assert_eq!(forker(&server, &["slot"]), ["child true false"]);
}

/// Of 400 children that took the locks of slots, three would hang.
#[test]
fn what_a_child_drops_waits_for_no_lock() {
    let Some(server) = server() else { return };
    assert_eq!(forker(&server, &["drop amid work", "1000"]), ["1000 children have ended"]);
}

#[test]
fn a_limiter_that_a_child_makes_waits_for_no_lock_of_its_parent() {
    let Some(server) = server() else { return };
    assert_eq!(forker(&server, &["make amid work", "100"]), ["100 children have ended"]);
}
