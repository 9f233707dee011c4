//! The picture of one limit: its requests as dots, what is left, and what passed in the last minute.

use plotters::prelude::*;

use crate::canvas::{BLUE, Drawing, Drawn, FONT, GREY, ORANGE, coordinate, picture, steps, text};
use crate::run::{MAX, Run};
use crate::traffic::LENGTH;

const SIZE: (u32, u32) = (860, 330);
/// Pixels of the part above the axes, and of the axes; the legend is beside them.
const HEAD: u32 = 44;
const AXES: u32 = 660;
/// Where the dots of the requests are, above all values.
const PASSED: i32 = 25;
const DENIED: i32 = 23;
const TOP: i32 = 26;

pub(crate) fn draw(run: &Run) -> String {
    picture(SIZE, |area| {
        let (head, rest) = area.split_vertically(HEAD);
        let (axes, legend) = rest.split_horizontally(AXES);
        text(&head, &run.arguments, (14, 8), BLACK)?;
        let (passed, all) = (run.passed(), run.requests.len());
        let result = format!("{passed} of {all} requests pass; at most {} in any 60 s", run.most());
        text(&head, result, (14, 27), BLACK)?;
        draw_axes(run, &axes).map_err(|error| error.to_string())?;
        draw_legend(&legend)
    })
}

fn draw_axes<'a>(run: &Run, area: &Drawing<'a>) -> Drawn<'a> {
    let x = (0..coordinate(LENGTH)).with_key_points((0..=6).map(|minute| minute * 60_000).collect());
    let y = (0..TOP).with_key_points(vec![0, 5, 10, 15, 20]);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("units")
        .axis_desc_style(FONT)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|millis| (millis / 1_000).to_string())
        .draw()?;
    let max = coordinate(MAX);
    chart.draw_series(LineSeries::new([(0, max), (coordinate(LENGTH), max)], GREY.stroke_width(1)))?;
    chart.draw_series(LineSeries::new(steps(&run.in_window), ORANGE.stroke_width(2)))?;
    chart.draw_series(LineSeries::new(steps(&run.left), BLUE.stroke_width(2)))?;
    let at = |wanted| {
        run.requests.iter().filter(move |(_, passed)| *passed == wanted).map(|(at, _)| coordinate(*at))
    };
    chart.draw_series(at(true).map(|at| Circle::new((at, PASSED), 3, BLUE.filled())))?;
    chart.draw_series(at(false).map(|at| Cross::new((at, DENIED), 3, ORANGE.stroke_width(2))))?;
    Ok(())
}

fn draw_legend(area: &Drawing<'_>) -> Result<(), String> {
    let sign = |row: i32| (10, 18 + 22 * row);
    area.draw(&Circle::new(sign(0), 3, BLUE.filled())).map_err(|error| error.to_string())?;
    area.draw(&Cross::new(sign(1), 3, ORANGE.stroke_width(2))).map_err(|error| error.to_string())?;
    for (row, color) in [(2, BLUE), (3, ORANGE), (4, GREY)] {
        let (x, y) = sign(row);
        let line = Rectangle::new([(x - 7, y - 1), (x + 7, y + 1)], color.filled());
        area.draw(&line).map_err(|error| error.to_string())?;
    }
    for (row, what) in (0..).zip(["passed", "denied", "left", "passed in the last 60 s", "max"]) {
        let (x, y) = sign(row);
        text(area, what, (x + 16, y - 8), BLACK)?;
    }
    Ok(())
}
