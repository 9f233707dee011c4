//! A limiter that was made before a fork: the child has a connection of its own, and shares the counts with
//! its parent.

use tests::program::lines;
use tests::redis::{Server, server};

fn forker(server: &Server, case: &str, more: &[&str]) -> Vec<String> {
    server.must("FLUSHALL");
    let url = server.url();
    lines(env!("CARGO_BIN_EXE_forker"), &[&[case, &url], more].concat())
}

#[test]
fn a_child_charges_the_same_counts_over_a_connection_of_its_own() {
    let Some(server) = server() else { return };
    for on_error in ["local", "deny"] {
        // The number of connections that each process has made is 1.
        let after =
            ["parent decided 9 1", "grandchild decided 8 1", "child decided 7 1", "parent decided 6 1"];
        assert_eq!(forker(&server, "check", &["after", on_error]), after, "{on_error}");
        let before = ["grandchild decided 9 1", "child decided 8 1", "parent decided 7 1"];
        assert_eq!(forker(&server, "check", &["before", on_error]), before, "{on_error}");
    }
}

#[test]
fn a_child_does_not_use_units_that_its_parent_holds() {
    let Some(server) = server() else { return };
    let lines = forker(&server, "lease", &[]);
    let admitted = lines.iter().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(admitted.sum::<u64>(), 1000, "{lines:?}");
}

#[test]
fn a_slot_stays_its_parents_when_a_child_drops_it() {
    let Some(server) = server() else { return };
    assert_eq!(forker(&server, "slot", &[]), ["child true false"]);
}
