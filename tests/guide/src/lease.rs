//! The picture of a lease, from the numbers of a simulated run.

use plotters::prelude::*;

use crate::canvas::{BLUE, Drawing, Drawn, FONT, GREEN, GREY, ORANGE, coordinate, picture, text};

/// Numbers of 25 ms.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    millisecond: u64,
    in_process: u64,
    by_redis: u64,
    denied: u64,
    calls: u64,
    held: u64,
}

/// The slices of `picture.csv`.
pub(crate) fn slices(csv: &str) -> Vec<Slice> {
    csv.lines().skip(1).map(slice).collect()
}

fn slice(line: &str) -> Slice {
    let numbers: Vec<u64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
    let [millisecond, in_process, by_redis, denied, calls, held] = numbers[..] else {
        panic!("{line} has other columns")
    };
    Slice { millisecond, in_process, by_redis, denied, calls, held }
}

/// Milliseconds of a slice.
const WIDTH: i32 = 25;

pub(crate) fn draw(slices: &[Slice]) -> String {
    picture((860, 330), |area| {
        let (head, rest) = area.split_vertically(44);
        let (axes, legend) = rest.split_horizontally(660);
        text(&head, "max = 2000, window = \"1s\", lease = \"100ms\"", (14, 8), BLACK)?;
        let sum = |of: fn(&Slice) -> u64| slices.iter().map(of).sum::<u64>();
        let passed = sum(|slice| slice.in_process + slice.by_redis);
        let result = format!(
            "{} requests: {passed} pass, {} of them without a round trip; {} calls to Redis",
            passed + sum(|slice| slice.denied),
            sum(|slice| slice.in_process),
            sum(|slice| slice.calls)
        );
        text(&head, result, (14, 27), BLACK)?;
        draw_axes(slices, &axes).map_err(|error| error.to_string())?;
        draw_legend(&legend)
    })
}

fn draw_axes<'a>(slices: &[Slice], area: &Drawing<'a>) -> Drawn<'a> {
    let end = slices.last().map_or(WIDTH, |slice| coordinate(slice.millisecond) + WIDTH);
    let highest = |slice: &Slice| (slice.in_process + slice.by_redis + slice.denied).max(slice.held);
    let top = coordinate(slices.iter().map(highest).max().unwrap_or(1)) + 10;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0..end, 0..top)?;
    chart
        .configure_mesh()
        .x_desc("milliseconds")
        .y_desc("in 25 ms")
        .axis_desc_style(FONT)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for slice in slices {
        let x = coordinate(slice.millisecond);
        let mut from = 0;
        for (count, color) in [(slice.by_redis, GREEN), (slice.in_process, BLUE), (slice.denied, ORANGE)] {
            let to = from + coordinate(count);
            if count > 0 {
                let bar = Rectangle::new([(x + 2, from), (x + WIDTH - 2, to)], color.filled());
                chart.draw_series([bar])?;
            }
            from = to;
        }
    }
    let held = slices.iter().map(|slice| (coordinate(slice.millisecond) + WIDTH, coordinate(slice.held)));
    chart.draw_series(LineSeries::new(held, GREY.stroke_width(2)))?;
    Ok(())
}

fn draw_legend(area: &Drawing<'_>) -> Result<(), String> {
    let signs = [
        (BLUE, "passed, in the process"),
        (GREEN, "passed, by Redis"),
        (ORANGE, "denied, by Redis"),
        (GREY, "held by the process"),
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
    use super::{Slice, slices};

    #[test]
    fn a_line_is_a_slice() {
        let expected = Slice { millisecond: 25, in_process: 1, by_redis: 2, denied: 3, calls: 4, held: 5 };
        assert_eq!(slices("head\n25,1,2,3,4,5\n"), [expected]);
    }
}
