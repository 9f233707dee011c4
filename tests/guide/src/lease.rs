//! The picture of a lease, from the numbers of a simulated run.

use crate::canvas::{BLUE, GREEN, GREY, ORANGE, coordinate};
use crate::course::{Bar, Course, lines};

/// Milliseconds of a line.
const WIDTH: u64 = 25;

/// Draws `picture.csv`.
pub(crate) fn draw(csv: &str) -> String {
    let (mut bars, mut curve, mut top) = (Vec::new(), Vec::new(), 0);
    let [mut all, mut all_in_process, mut all_denied, mut all_calls] = [0; 4];
    for [from, in_process, by_redis, denied, calls, held] in lines(csv) {
        let end = from + WIDTH;
        let parts = vec![(GREEN, by_redis), (BLUE, in_process), (ORANGE, denied)];
        bars.push(Bar { span: (from, end), parts });
        curve.push((coordinate(end), coordinate(held)));
        let requests = in_process + by_redis + denied;
        top = top.max(requests).max(held);
        all += requests;
        all_in_process += in_process;
        all_denied += denied;
        all_calls += calls;
    }
    let result = format!(
        "{all} requests: {} pass, {all_in_process} of them without a round trip; {all_calls} calls to Redis",
        all - all_denied
    );
    let course = Course {
        height: 330,
        head: vec!["max = 2000, window = \"1s\", lease = \"100ms\"".to_owned(), result],
        axes: ("milliseconds", "in 25 ms"),
        unit: 1,
        top: top + 10,
        bars,
        gap: 2,
        curve: (GREY, curve),
        legend: &[
            (BLUE, "passed, in the process"),
            (GREEN, "passed, by Redis"),
            (ORANGE, "denied, by Redis"),
            (GREY, "held by the process"),
        ],
    };
    course.draw()
}
