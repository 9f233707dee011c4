//! Pictures of the course of a run: bars over time, a curve above them, and what they mean; and the numbers of a run.

use plotters::prelude::*;

use crate::canvas::{Drawing, Drawn, FONT, coordinate, picture, text};

/// The lines of a file of numbers, without its head.
pub(crate) fn lines<const N: usize>(csv: &str) -> Vec<[u64; N]> {
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{line} has other columns"))
    };
    csv.lines().skip(1).map(line).collect()
}

/// What is drawn of a run. Times are milliseconds.
pub(crate) struct Course<'t> {
    pub(crate) height: u32,
    /// Lines above the axes.
    pub(crate) head: Vec<String>,
    /// What both axes count, and the milliseconds in a unit of the first.
    pub(crate) axes: (&'t str, &'t str),
    pub(crate) unit: u64,
    /// The end of the second axis.
    pub(crate) top: u64,
    pub(crate) bars: Vec<Bar>,
    /// Milliseconds between two bars.
    pub(crate) gap: i32,
    pub(crate) curve: (RGBColor, Vec<(i32, i32)>),
    pub(crate) legend: &'t [(RGBColor, &'t str)],
}

/// A bar, from one instant to another: parts above each other.
pub(crate) struct Bar {
    pub(crate) span: (u64, u64),
    pub(crate) parts: Vec<(RGBColor, u64)>,
}

impl Course<'_> {
    pub(crate) fn draw(&self) -> String {
        picture((860, self.height), |area| {
            let (head, rest) = area.split_vertically(8 + 18 * coordinate(self.head.len() as u64));
            let (axes, legend) = rest.split_horizontally(660);
            for (row, line) in (0..).zip(&self.head) {
                text(&head, line, (14, 8 + 19 * row), BLACK)?;
            }
            self.draw_axes(&axes).map_err(|error| error.to_string())?;
            self.draw_legend(&legend)
        })
    }

    fn draw_axes<'a>(&self, area: &Drawing<'a>) -> Drawn<'a> {
        let end = self.bars.last().map_or(1, |bar| coordinate(bar.span.1));
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(0..end, 0..coordinate(self.top))?;
        chart
            .configure_mesh()
            .x_desc(self.axes.0)
            .x_label_formatter(&|time| (time / coordinate(self.unit)).to_string())
            .y_desc(self.axes.1)
            .axis_desc_style(FONT)
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for bar in &self.bars {
            let (left, right) = (coordinate(bar.span.0) + self.gap, coordinate(bar.span.1) - self.gap);
            let mut from = 0;
            for (color, count) in &bar.parts {
                let to = from + coordinate(*count);
                if *count > 0 {
                    chart.draw_series([Rectangle::new([(left, from), (right, to)], color.filled())])?;
                }
                from = to;
            }
        }
        let (color, points) = &self.curve;
        chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
        Ok(())
    }

    fn draw_legend(&self, area: &Drawing<'_>) -> Result<(), String> {
        for (row, (color, what)) in (0..).zip(self.legend) {
            let y = 18 + 22 * row;
            let sign = Rectangle::new([(3, y - 3), (17, y + 3)], color.filled());
            area.draw(&sign).map_err(|error| error.to_string())?;
            text(area, *what, (26, y - 8), BLACK)?;
        }
        Ok(())
    }
}
