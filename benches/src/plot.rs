//! Plots: lines over two logarithmic axes, with the quartiles of each point, as SVG.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::WithKeyPoints;
use plotters::prelude::*;

use crate::spread::{Spread, round};

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// `x`, and the quartiles of `y`.
    pub points: Vec<(f64, Spread)>,
}

/// The contents of a plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// Name of the horizontal axis.
    pub x: String,
    /// Name of the vertical axis.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Colours that are told apart without red and green.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(102, 102, 102),
    RGBColor(160, 82, 45),
];

/// Pixels of the picture, and of its left part, which has the axes; the rest is the legend.
const SIZE: (u32, u32) = (780, 400);
const AXES: u32 = 540;

type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Plot {
    /// The picture.
    ///
    /// # Panics
    ///
    /// When there is nothing to draw.
    pub fn draw(&self) -> String {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        self.draw_on(&area).expect("drawing into a text cannot fail");
        drop(area);
        svg
    }

    fn draw_on(&self, area: &Drawing<'_>) -> DrawResult<(), SVGBackend<'_>> {
        area.fill(&WHITE)?;
        let (axes, legend) = area.split_horizontally(AXES);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = axis(points().map(|(x, _)| *x));
        let y = axis(points().flat_map(|(_, y)| [y.low, y.high]));
        let mut chart = ChartBuilder::on(&axes)
            .caption(&self.title, ("sans-serif", 19))
            .margin(8)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style(("sans-serif", 15))
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|tick| round(*tick))
            .y_label_formatter(&|tick| round(*tick))
            .draw()?;
        for ((line, color), row) in self.lines.iter().zip(COLORS.iter().cycle()).zip(0..) {
            let medians = line.points.iter().map(|(x, y)| (*x, y.median));
            chart.draw_series(LineSeries::new(medians, color.stroke_width(2)))?;
            chart.draw_series(
                line.points
                    .iter()
                    .map(|(x, y)| ErrorBar::new_vertical(*x, y.low, y.median, y.high, color.filled(), 6)),
            )?;
            let top = 40 + 20 * row;
            legend.draw(&Rectangle::new([(4, top), (18, top + 4)], color.filled()))?;
            legend.draw(&Text::new(line.name.clone(), (24, top - 4), ("sans-serif", 15)))?;
        }
        area.present()
    }
}

/// A logarithmic axis on which all values have room, with its ticks.
fn axis(values: impl Iterator<Item = f64> + Clone) -> WithKeyPoints<LogCoord<f64>> {
    let low = values.clone().fold(f64::INFINITY, f64::min).max(1e-9);
    let high = values.fold(0.0, f64::max).max(low * 1.1);
    let range = low / 1.05..high * 1.05;
    let ticks = ticks(&range);
    range.log_scale().with_key_points(ticks)
}

/// 1, 2 and 5 times the powers of ten in a range; only the powers when those are many.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let steps: &[f64] = if range.end / range.start > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = (-9..=12).map(|power| 10_f64.powi(power));
    let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * power));
    ticks.filter(|tick| range.contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_axes_have_fewer_ticks() {
        assert_eq!(ticks(&(0.9..110.0)), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(ticks(&(0.9..1100.0)), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn a_picture_has_every_line_and_name() {
        let point = Spread { low: 1.0, median: 2.0, high: 3.0 };
        let line = |name: &str| Line { name: name.to_owned(), points: vec![(1.0, point), (10.0, point)] };
        let lines = vec![line("a < b & c"), line("d")];
        let plot = Plot { title: "t".to_owned(), x: "x".to_owned(), y: "y".to_owned(), lines };
        let svg = plot.draw();
        assert!(svg.contains("a &lt; b &amp; c") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for (color, drawn) in [("#0072B2", true), ("#D55E00", true), ("#009E73", false)] {
            assert_eq!(svg.contains(color), drawn, "{color} in {svg}");
        }
    }
}
