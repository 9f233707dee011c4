//! The run that the picture of a lease shows: `UPDATE_DOCS=1 cargo test -p ratelimit-core --lib picture` writes `picture.csv` anew,
//! from which `cargo run -p guide` draws.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::simulation::{Report, SECOND, Scenario};
use crate::policy::Policy;

/// When each phase ends, in microseconds, and its load in percent of 2000 requests a second.
const PHASES: [(u64, u64); 4] =
    [(3 * SECOND / 10, 2), (9 * SECOND / 10, 70), (13 * SECOND / 10, 1), (19 * SECOND / 10, 250)];

fn run() -> Report {
    let policy = Policy::builder("global").max(2_000).window(Duration::from_secs(1)).build();
    let scenario = Scenario::new(1, policy, 1);
    Scenario { phases: PHASES.to_vec(), until: 19 * SECOND / 10, way: (1_000, 1_000), ..scenario }.run()
}

/// What came between two looks, one line for each.
fn csv(report: &Report) -> String {
    let mut lines = "millisecond,in_process,by_redis,denied,calls,held\n".to_owned();
    for pair in report.moments.windows(2) {
        let [before, now] = pair else { unreachable!("windows of two") };
        let local = now.local - before.local;
        let admitted = now.admitted - before.admitted;
        _ = writeln!(
            lines,
            "{},{local},{},{},{},{}",
            before.time / 1_000,
            admitted - local,
            now.denied - before.denied,
            now.calls - before.calls,
            now.held
        );
    }
    lines
}

#[test]
fn the_picture_shows_this_run() {
    let report = run();
    assert_eq!((report.over, report.unbalanced), (0, 0), "{}", report.first_fault);
    assert!(report.denied > 0 && report.local > 20 * report.leases && report.leases > 5, "{report:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis/lease/tests/picture.csv");
    let text = csv(&report);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "picture.csv is out of date: UPDATE_DOCS=1 writes it anew\n{text}");
}
