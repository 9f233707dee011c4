//! The picture of a queue: three processes wait for turns of one bucket.

use std::fmt::Write as _;
use std::time::Duration;

use plotters::prelude::*;
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Policy, Timestamp};

use crate::canvas::{BLUE, GREEN, GREY, ORANGE, coordinate, picture, text};
use crate::traffic::START;

/// Who asks for a turn, by the number of the process, and when, in milliseconds.
const ASKED: [(usize, u64); 12] = [
    (0, 0),
    (0, 100),
    (0, 200),
    (1, 400),
    (1, 500),
    (2, 600),
    (2, 800),
    (1, 2_300),
    (0, 2_600),
    (2, 2_700),
    (2, 3_000),
    (1, 4_500),
];
const COLORS: [RGBColor; 3] = [BLUE, ORANGE, GREEN];
const AT_MOST_US: u64 = 5_000_000;
/// Milliseconds that the picture shows.
const LENGTH: u64 = 10_000;
const LEFT: i32 = 150;
const WIDTH: u64 = 650;
const HEAD: i32 = 34;
const LANE: i32 = 22;

/// What became of one who asked, in milliseconds.
#[derive(Debug)]
pub(crate) struct Asked {
    process: usize,
    at: u64,
    /// The turn, or, of a denial, `retry_after`.
    turn: Result<u64, u64>,
}

/// Takes the turns of a bucket of one unit a second.
pub(crate) fn all() -> Vec<Asked> {
    let bucket = Policy::builder("waiting").algorithm(Algorithm::TokenBucket).max(1);
    let policy = bucket.window(Duration::from_secs(1)).build();
    let mut state = State::new(&policy);
    let asked = ASKED.iter().map(|&(process, at)| {
        let now = Timestamp::from_micros(START + at * 1_000);
        let outcome = state.decide(&policy, 1, now, Operation::Wait { at_most_us: AT_MOST_US });
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).expect("a picture has small numbers");
        let turn = match outcome.retry_after() {
            None => Ok(at + millis(outcome.due_after())),
            Some(wait) => Err(millis(wait)),
        };
        Asked { process, at, turn }
    });
    asked.collect()
}

pub(crate) fn draw(asked: &[Asked]) -> String {
    let bottom = HEAD + LANE * coordinate(asked.len() as u64);
    let height = u32::try_from(bottom + 34).expect("a picture has small numbers");
    picture((860, height), |area| {
        let at = |millis: u64| LEFT + coordinate(millis * WIDTH / LENGTH);
        let failed = |error: DrawingAreaErrorKind<_>| error.to_string();
        let limit = "max = 1, window = \"1s\", algorithm = \"token_bucket\"; each waits at most 5 s";
        text(area, limit, (14, 8), BLACK)?;
        for second in 0..=LENGTH / 1_000 {
            let x = at(second * 1_000);
            let line = PathElement::new([(x, HEAD), (x, bottom)], GREY.mix(0.4).stroke_width(1));
            area.draw(&line).map_err(failed)?;
            text(area, format!("{second} s"), (x - 8, bottom + 8), BLACK)?;
        }
        for (lane, one) in (0..).zip(asked) {
            let (y, color) = (HEAD + LANE * lane + LANE / 2, COLORS[one.process]);
            text(area, format!("process {}", one.process + 1), (14, y - 8), color)?;
            match one.turn {
                Ok(turn) => {
                    let line = PathElement::new([(at(one.at), y), (at(turn), y)], color.stroke_width(2));
                    area.draw(&line).map_err(failed)?;
                    area.draw(&Circle::new((at(turn), y), 4, color.filled())).map_err(failed)?;
                }
                Err(wait) => {
                    area.draw(&Cross::new((at(one.at), y), 4, color.stroke_width(2))).map_err(failed)?;
                    let denied = format!("denied: its turn would be in {} s", seconds(wait));
                    text(area, denied, (at(one.at) + 10, y - 8), color)?;
                }
            }
        }
        Ok(())
    })
}

/// Milliseconds as seconds with one digit.
fn seconds(millis: u64) -> String {
    format!("{}.{}", millis / 1_000, millis % 1_000 / 100)
}

/// The same as a table of a page.
pub(crate) fn table(asked: &[Asked]) -> String {
    let mut table = "| process | asks at | result |\n|---|---|---|\n".to_owned();
    for one in asked {
        let result = match one.turn {
            Ok(turn) => format!("starts at {} s, after {} s", seconds(turn), seconds(turn - one.at)),
            Err(wait) => format!("denied: its turn would be in {} s", seconds(wait)),
        };
        _ = writeln!(table, "| {} | {} s | {result} |", one.process + 1, seconds(one.at));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_a_second_apart_in_the_order_in_which_the_processes_ask_and_some_are_denied() {
        let asked = all();
        let starts: Vec<u64> = asked.iter().filter_map(|one| one.turn.ok()).collect();
        assert!(starts.iter().zip(0..).all(|(start, second)| *start == second * 1_000), "{starts:?}");
        assert!(starts.len() >= 8 && starts.len() < asked.len(), "{starts:?}");
        assert!(asked.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}
