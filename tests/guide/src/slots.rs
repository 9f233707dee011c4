//! The picture of a crash under a concurrency limit, from the numbers of a run of real processes.

use crate::canvas::{BLUE, GREEN, GREY, steps};
use crate::course::{Bar, Course, lines};

/// Draws the numbers that `tests/outages/slots/crash.rs` wrote.
pub(crate) fn draw(csv: &str) -> String {
    let looks: Vec<[u64; 4]> = lines(csv);
    let bars = looks.windows(2).map(|pair| {
        let ([from, first, second, _], [till, ..]) = (pair[0], pair[1]);
        Bar { span: (from, till), parts: vec![(BLUE, second), (GREEN, first)] }
    });
    let counted: Vec<_> = looks.iter().map(|[at, _, _, counted]| (*at, *counted)).collect();
    let course = Course {
        height: 290,
        head: vec!["max = 6, more requests than slots; a process is killed after 10 s".to_owned()],
        axes: ("seconds", "slots"),
        unit: 1_000,
        top: 7,
        bars: bars.collect(),
        gap: 0,
        curve: (GREY, steps(&counted)),
        legend: &[
            (GREEN, "runs in the process that is killed"),
            (BLUE, "runs in the other"),
            (GREY, "held, as Redis counts"),
        ],
    };
    course.draw()
}
