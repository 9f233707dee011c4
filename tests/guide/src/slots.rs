//! The picture of a crash under a concurrency limit, from the numbers of a simulated run.

use plotters::prelude::*;

use crate::canvas::{BLUE, Drawing, Drawn, FONT, GREEN, GREY, coordinate, picture, steps, text};

/// Numbers of one instant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    millisecond: u64,
    first: u64,
    second: u64,
    counted: u64,
}

/// The instants of `picture.csv`.
pub(crate) fn instants(csv: &str) -> Vec<Instant> {
    csv.lines().skip(1).map(instant).collect()
}

fn instant(line: &str) -> Instant {
    let numbers: Vec<u64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
    let [millisecond, first, second, counted] = numbers[..] else { panic!("{line} has other columns") };
    Instant { millisecond, first, second, counted }
}

/// Milliseconds between two instants.
const WIDTH: i32 = 250;

pub(crate) fn draw(instants: &[Instant]) -> String {
    picture((860, 290), |area| {
        let (head, rest) = area.split_vertically(26);
        let (axes, legend) = rest.split_horizontally(660);
        text(
            &head,
            "max = 6, streams of 2 s, more requests than slots; a process crashes after 10 s",
            (14, 8),
            BLACK,
        )?;
        draw_axes(instants, &axes).map_err(|error| error.to_string())?;
        draw_legend(&legend)
    })
}

fn draw_axes<'a>(instants: &[Instant], area: &Drawing<'a>) -> Drawn<'a> {
    let end = instants.last().map_or(WIDTH, |instant| coordinate(instant.millisecond) + WIDTH);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0..end, 0..7)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .x_label_formatter(&|milliseconds| (milliseconds / 1000).to_string())
        .y_desc("slots")
        .axis_desc_style(FONT)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for instant in instants {
        let x = coordinate(instant.millisecond);
        let mut from = 0;
        for (count, color) in [(instant.second, BLUE), (instant.first, GREEN)] {
            let to = from + coordinate(count);
            if count > 0 {
                chart.draw_series([Rectangle::new([(x, from), (x + WIDTH, to)], color.filled())])?;
            }
            from = to;
        }
    }
    let counted: Vec<_> = instants.iter().map(|instant| (instant.millisecond, instant.counted)).collect();
    chart.draw_series(LineSeries::new(steps(&counted), GREY.stroke_width(3)))?;
    Ok(())
}

fn draw_legend(area: &Drawing<'_>) -> Result<(), String> {
    let signs = [
        (GREEN, "runs in the process that crashes"),
        (BLUE, "runs in the other"),
        (GREY, "held, as Redis counts"),
    ];
    for (row, (color, what)) in (0..).zip(signs) {
        let y = 18 + 22 * row;
        let sign = Rectangle::new([(3, y - 3), (17, y + 3)], color.filled());
        area.draw(&sign).map_err(|error| error.to_string())?;
        text(area, what, (26, y - 8), BLACK)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Instant, instants};

    #[test]
    fn a_line_is_an_instant() {
        let expected = Instant { millisecond: 250, first: 1, second: 2, counted: 3 };
        assert_eq!(instants("head\n250,1,2,3\n"), [expected]);
    }
}
