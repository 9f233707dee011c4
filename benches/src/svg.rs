//! Plots as SVG text: lines over two logarithmic axes, and nothing else.

use std::fmt::Write;

use crate::spread::short;

/// A line of a plot, with the quartiles of each point.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// `x`, and the lower quartile, median and upper quartile of `y`.
    pub points: Vec<(f64, crate::spread::Spread)>,
}

/// What a plot shows.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// What `x` is.
    pub x: String,
    /// What `y` is.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
}

const COLORS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#a0522d"];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 240.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// One axis: from the lowest to the highest value, by their logarithms, on a number of pixels.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).max(1e-9);
        let high = values.fold(0.0, f64::max).max(low * 1.1);
        Self { low: low.ln(), high: high.ln(), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(1e-9).ln() - self.low) / (self.high - self.low);
        self.from + (self.to - self.from) * part
    }

    /// 1, 2 and 5 times the powers of ten on the axis; only the powers when those are many.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let steps: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (-9..=12).map(|power| 10_f64.powi(power));
        let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * power));
        ticks.filter(|tick| (self.low - 1e-9..=self.high + 1e-9).contains(&tick.ln())).collect()
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, r#"<text x="{x:.0}" y="{y:.0}" text-anchor="{anchor}">{text}</text>"#);
}

impl Plot {
    /// The picture.
    pub fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::new(points().map(|(x, _)| *x), LEFT, WIDTH - RIGHT);
        let bounds = points().flat_map(|(_, y)| [y.low, y.high]);
        let y = Axis::new(bounds, HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" "#,
                r#"font-family="sans-serif" font-size="12">"#,
                "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
            ),
            WIDTH, HEIGHT
        );
        text(&mut svg, LEFT, 20.0, "start", &self.title);
        for tick in x.ticks() {
            let at = x.place(tick);
            let (top, bottom) = (TOP, HEIGHT - BOTTOM);
            let _ = writeln!(svg, r##"<path d="M{at:.1} {top}V{bottom}" stroke="#ddd"/>"##);
            text(&mut svg, at, bottom + 16.0, "middle", &short(tick).replace(".00", "").replace(".0", ""));
        }
        for tick in y.ticks() {
            let at = y.place(tick);
            let (left, right) = (LEFT, WIDTH - RIGHT);
            let _ = writeln!(svg, r##"<path d="M{left} {at:.1}H{right}" stroke="#ddd"/>"##);
            text(&mut svg, left - 6.0, at + 4.0, "end", &short(tick).replace(".00", "").replace(".0", ""));
        }
        text(&mut svg, f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 12.0, "middle", &self.x);
        text(&mut svg, LEFT, TOP - 6.0, "end", &self.y);
        for (i, line) in self.lines.iter().enumerate() {
            let color = COLORS[i % COLORS.len()];
            let places: Vec<String> = line
                .points
                .iter()
                .map(|(px, py)| format!("{:.1},{:.1}", x.place(*px), y.place(py.median)))
                .collect();
            let path = places.join(" ");
            let _ =
                writeln!(svg, r#"<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>"#);
            for (px, py) in &line.points {
                let (at, low, high) = (x.place(*px), y.place(py.low), y.place(py.high));
                let middle = y.place(py.median);
                let _ = writeln!(svg, r#"<circle cx="{at:.1}" cy="{middle:.1}" r="3" fill="{color}"/>"#);
                let _ = writeln!(svg, r#"<path d="M{at:.1} {low:.1}V{high:.1}" stroke="{color}"/>"#);
            }
            let (left, top) = (WIDTH - RIGHT + 14.0, TOP + 10.0 + 18.0 * i as f64);
            let _ = writeln!(
                svg,
                r#"<rect x="{left}" y="{:.0}" width="12" height="4" fill="{color}"/>"#,
                top - 6.0
            );
            text(&mut svg, left + 18.0, top, "start", &line.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;

    #[test]
    fn equal_ratios_are_equally_far_apart() {
        let axis = Axis::new([1.0, 1000.0].into_iter(), 0.0, 300.0);
        let places = [1.0, 10.0, 100.0, 1000.0].map(|x| axis.place(x).round() as u64);
        assert_eq!(places, [0, 100, 200, 300]);
        assert_eq!(axis.ticks().len(), 4);
    }

    #[test]
    fn names_are_escaped() {
        let point = Spread { low: 1.0, median: 2.0, high: 3.0 };
        let line = Line { name: "a < b & c".to_owned(), points: vec![(1.0, point), (10.0, point)] };
        let plot = Plot { title: "t".to_owned(), x: "x".to_owned(), y: "y".to_owned(), lines: vec![line] };
        let svg = plot.draw();
        assert!(svg.contains("a &lt; b &amp; c") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
