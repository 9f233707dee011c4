//! What all pictures share: colours, texts, and curves that have only the points that they need.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::prelude::*;

pub(crate) type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn<'a> = DrawResult<(), SVGBackend<'a>>;

/// Colours that are told apart without red and green, and on grey.
pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const ORANGE: RGBColor = RGBColor(213, 94, 0);
pub(crate) const GREY: RGBColor = RGBColor(120, 120, 120);

/// The font of all texts, in pixels.
pub(crate) const FONT: (&str, u32) = ("sans-serif", 14);

/// A picture of this size. Its ground is white in every theme.
pub(crate) fn picture(size: (u32, u32), draw: impl Fn(&Drawing<'_>) -> Result<(), String>) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    area.fill(&WHITE)
        .map_err(|error| error.to_string())
        .and_then(|()| draw(&area))
        .expect("draws into a text");
    area.present().expect("draws into a text");
    drop(area);
    svg
}

/// A line of text at a place in pixels.
pub(crate) fn text(
    area: &Drawing<'_>,
    text: impl Into<String>,
    place: (i32, i32),
    color: RGBColor,
) -> Result<(), String> {
    area.draw(&Text::new(text.into(), place, FONT.into_font().color(&color)))
        .map_err(|error| error.to_string())
}

/// A value as a coordinate.
pub(crate) fn coordinate(value: u64) -> i32 {
    i32::try_from(value).expect("a picture has small numbers")
}

/// The corners of a curve that keeps each value until the next point.
pub(crate) fn steps(points: &[(u64, u64)]) -> Vec<(i32, i32)> {
    let mut corners: Vec<(i32, i32)> = Vec::new();
    for &(x, y) in points {
        let (x, y) = (coordinate(x), coordinate(y));
        match corners.last() {
            Some((_, last)) if *last == y => continue,
            Some((_, last)) => corners.push((x, *last)),
            None => {}
        }
        corners.push((x, y));
    }
    if let (Some((end, _)), Some((_, last))) = (points.last(), corners.last()) {
        corners.push((coordinate(*end), *last));
    }
    corners
}
