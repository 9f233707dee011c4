//! The run that the picture of a crash shows: `UPDATE_DOCS=1 cargo test -p tests --test outages a_crash -- --ignored` writes its
//! numbers into `crash.csv` anew, from which `cargo run -p guide` draws.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tests::holders::{Holder, Mark, Work, caller, now, policy};
use tests::redis::server;

use super::{HOLDER, limiter_that_is_up};

/// Microseconds between two looks, until one of both processes crashes, and until the end.
const LOOK: u64 = 250_000;
const CRASH: u64 = 10_000_000;
const END: u64 = 30_000_000;

/// More requests than slots, most of them short, and some of up to 4 s.
const WORK: Work = Work { callers: 1, max: 6, tasks: 8, longest: 4_000 };

/// How many requests of a process run at an instant.
fn running(marks: &[Mark], at: u64) -> usize {
    let until = |begins| marks.iter().filter(move |mark| mark.begins == begins && mark.at <= at).count();
    until(true) - until(false)
}

#[tokio::test]
#[ignore = "takes half a minute"]
async fn a_crash_leaves_slots_unused_for_ten_seconds_as_the_page_shows() {
    let Some(server) = server() else { return };
    let (folder, observer) = (TempDir::new().unwrap(), limiter_that_is_up(&server).await);
    let start = |name| Holder::start(HOLDER, &server.url(), folder.path(), name, WORK);
    let (mut first, second) = (Some(start("first")), start("second"));
    let mut marks_of_first = Vec::new();
    let begin = now();
    let mut counted = Vec::new();
    for due in (0..=END).step_by(usize::try_from(LOOK).unwrap()) {
        tokio::time::sleep(Duration::from_micros((begin + due).saturating_sub(now()))).await;
        if due == CRASH {
            marks_of_first = first.take().unwrap().kill();
        }
        let at = now();
        let left = observer.peek(&policy(WORK.max), caller(0)).await.unwrap().remaining();
        counted.push((at, WORK.max - left));
    }
    let marks_of_second = second.kill();
    let mut text = "millisecond,first,second,counted\n".to_owned();
    for (at, counted) in counted {
        let [first, second] = [&marks_of_first, &marks_of_second].map(|marks| running(marks, at));
        let at = at - begin;
        assert!(first + second <= 6 && counted <= 6, "{first} and {second} run, {counted} are counted");
        if (CRASH + LOOK..CRASH + 9_500_000).contains(&at) {
            assert!(second < 6 && counted > second as u64, "{second} run, {counted} are counted");
        }
        // A slot may just be given from one request to the next.
        assert!(at < CRASH + 11_000_000 || second >= 4, "{second} run");
        _ = writeln!(text, "{},{first},{second},{counted}", at / 1_000);
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("outages/slots/crash.csv");
        std::fs::write(path, text).unwrap();
    }
}
