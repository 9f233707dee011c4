//! Every algorithm of the core is in the table of the attribute and in the tables of the documentation. A new
//! algorithm that is missing in one of them fails here, with the name of the file.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use ratelimit_core::policy::MAX_LEASE;
use ratelimit_core::{Algorithm, Policy};

use crate::attribute_algorithms::{ALGORITHMS, DEFAULT};

const TABLE: &str = "ratelimit-macros/src/parse/values/algorithm/table.rs";

/// Text of a file of the repository.
fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

#[test]
fn every_algorithm_is_a_row_of_the_attribute() {
    for algorithm in Algorithm::ALL {
        let row = ALGORITHMS.iter().find(|row| row.name == algorithm.as_str());
        let row = row.unwrap_or_else(|| panic!("{TABLE} has no row for {algorithm}"));
        assert_eq!(row.variant, format!("{algorithm:?}"), "{TABLE}: the variant of {algorithm}");
        let builder = Policy::builder("k").algorithm(*algorithm);
        for (parameter, is_accepted) in [
            ("sub_windows", builder.sub_windows(2).try_build().is_ok()),
            ("burst", builder.burst(2).try_build().is_ok()),
        ] {
            let is_listed = row.parameters.contains(&parameter);
            assert_eq!(is_listed, is_accepted, "{TABLE}: {parameter} of {algorithm}");
        }
        let is_leased = builder.lease(MAX_LEASE).try_build().is_ok();
        assert_eq!(row.no_lease.is_none(), is_leased, "{TABLE}: leases of {algorithm}");
    }
    let names = |all: &mut dyn Iterator<Item = &'static str>| all.collect::<Vec<_>>();
    assert_eq!(
        names(&mut ALGORITHMS.iter().map(|row| row.name)),
        names(&mut Algorithm::ALL.iter().map(|algorithm| algorithm.as_str())),
        "{TABLE}: the rows are in the order of the core"
    );
    assert_eq!(DEFAULT.name, Policy::builder("k").build().algorithm().as_str(), "{TABLE}: the default");
}

/// Places that name every algorithm: the file, and the text in which `NAME` stands for the name.
const PLACES: [(&str, &str); 2] = [("docs/choosing.md", "| `NAME` |"), ("tests/mutants/lua.txt", "NAME.lua")];

#[test]
fn every_algorithm_is_in_each_table() {
    let mut missing = Vec::new();
    for algorithm in Algorithm::ALL {
        for (path, place) in PLACES {
            let place = place.replace("NAME", algorithm.as_str());
            if !text(path).contains(&place) {
                missing.push(format!("{path}: {place} does not occur"));
            }
        }
        let (path, row) =
            ("ratelimit-core/src/policy/algorithm.rs", format!("| [`{algorithm:?}`](Self::{algorithm:?}) |"));
        if !text(path).contains(&row) {
            missing.push(format!("{path}: {row} does not occur"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
