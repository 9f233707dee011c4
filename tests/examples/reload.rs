//! A file of overrides that changes under load, in two processes.

use std::path::Path;
use std::time::{Duration, Instant};

use tests::demo::Demo;
use tests::load::{Answer, Load};

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Longest time from the change of a file to the first request that is decided by it.
const IN_FORCE: Duration = Duration::from_secs(1);

/// Requests a second to each of the two processes.
const RATE: u32 = 500;

/// Lets the load run on, and says when that began.
#[allow(clippy::disallowed_methods, reason = "measures")]
fn run_under(path: &Path, max: u64) -> Instant {
    std::fs::write(path, format!("[limit.user-api]\nmax = {max}\n")).unwrap();
    let written = Instant::now();
    std::thread::sleep(2 * IN_FORCE);
    written
}

/// All requests of one caller: every one passes under the large number, and none under the small one, which is used up already.
#[test]
fn a_changed_file_is_in_force_within_a_second_in_two_processes_and_loses_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    std::fs::write(&path, "[limit.user-api]\nmax = 1000000\n").unwrap();
    let demos = [(); 2].map(|()| Demo::start(DEMO, &[("LIMITS_FILE", path.to_str().unwrap())]));
    let loads = demos.each_ref().map(|demo| Load::start(demo.address, "/api/user/7", RATE));
    run_under(&path, 1_000_000);
    let lowered = run_under(&path, 1);
    let raised = run_under(&path, 1_000_000);
    for (process, load) in loads.into_iter().enumerate() {
        let answers = load.stop();
        let statuses = |from: Instant, to: Instant| {
            let is_within = move |answer: &&Answer| from <= answer.at && answer.at + answer.took <= to;
            let mut statuses: Vec<u16> =
                answers.iter().filter(is_within).map(|answer| answer.status).collect();
            assert!(statuses.len() > 100, "process {process}: {} answers", statuses.len());
            statuses.sort_unstable();
            statuses.dedup();
            statuses
        };
        let (first, last) = (answers[0].at, answers[answers.len() - 1]);
        let end = last.at + last.took;
        assert_eq!(statuses(first, end), [200, 429], "process {process}: none is lost");
        assert_eq!(statuses(first, lowered), [200], "process {process}: before the change");
        assert_eq!(statuses(lowered + IN_FORCE, raised), [429], "process {process}: a second after it");
        assert_eq!(
            statuses(raised + IN_FORCE, end),
            [200],
            "process {process}: a second after it was undone"
        );
        println!("process {process}: {} answers in {:?}", answers.len(), end - first);
    }
}
