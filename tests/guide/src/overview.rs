//! The picture of all limits beside each other: one row of requests for each.

use plotters::prelude::*;

use crate::canvas::{BLUE, GREY, ORANGE, coordinate, picture, text};
use crate::run::Run;
use crate::traffic::LENGTH;

const ROW: i32 = 46;
const HEAD: i32 = 34;
const LEFT: i32 = 250;
const RIGHT: i32 = 690;

pub(crate) fn draw(runs: &[Run]) -> String {
    let rows = coordinate(runs.len() as u64);
    let height = u32::try_from(HEAD + ROW * rows + 34).expect("a picture has small numbers");
    picture((860, height), |area| {
        let at = |millis: u64| LEFT + coordinate(millis * u64::from((RIGHT - LEFT).unsigned_abs()) / LENGTH);
        let failed = |error: DrawingAreaErrorKind<_>| error.to_string();
        text(area, "max = 10, window = \"60s\"", (14, 8), BLACK)?;
        text(area, "most in any 60 s", (RIGHT + 30, 8), BLACK)?;
        for minute in 0..=6 {
            let x = at(minute * 60_000);
            let line = PathElement::new([(x, HEAD), (x, HEAD + ROW * rows)], GREY.mix(0.4).stroke_width(1));
            area.draw(&line).map_err(failed)?;
            text(area, format!("{} s", minute * 60), (x - 12, HEAD + ROW * rows + 8), BLACK)?;
        }
        for (row, run) in (0..).zip(runs) {
            let y = HEAD + ROW * row + ROW / 2;
            text(area, run.name.replace("-6", ", 6 parts"), (14, y - 8), BLACK)?;
            for &(millis, passed) in &run.requests {
                if passed {
                    area.draw(&Circle::new((at(millis), y - 7), 3, BLUE.filled())).map_err(failed)?;
                } else {
                    area.draw(&Cross::new((at(millis), y + 7), 3, ORANGE.stroke_width(2))).map_err(failed)?;
                }
            }
            text(area, run.most().to_string(), (RIGHT + 70, y - 8), BLACK)?;
        }
        Ok(())
    })
}
