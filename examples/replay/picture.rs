//! The picture of a limit: requests over time, admitted and denied.

use std::fs;
use std::path::{Path, PathBuf};

use plotters::prelude::*;
use time::OffsetDateTime;

use crate::Failed;
use crate::replay::Replay;
use crate::report::{grouped, hour, time as duration};
use crate::timeline::{Bar, Timeline};

/// Colours that are told apart without red and green.
const ADMITTED: RGBColor = RGBColor(0, 114, 178);
const DENIED: RGBColor = RGBColor(213, 94, 0);

const SIZE: (u32, u32) = (860, 300);
const FONT: (&str, u32) = ("sans-serif", 14);
/// Seconds between two ticks of the axis.
const TICKS: [u64; 13] =
    [1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 86_400, 604_800, 2_419_200, 31_449_600];
/// Most ticks of the axis.
const MOST_TICKS: u64 = 9;

/// Writes the picture of each limit that had requests into a folder.
pub(crate) fn write(replay: &Replay, folder: &Path) -> Result<Vec<Option<PathBuf>>, Failed> {
    let failed = |error: std::io::Error| format!("{} cannot be written: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let mut files: Vec<Option<PathBuf>> = Vec::new();
    for (limit, tally) in replay.limits.iter().zip(&replay.tallies) {
        if tally.timeline.bars().is_empty() {
            files.push(None);
            continue;
        }
        let key = limit.policy.key();
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let mut file = folder.join(format!("replay-{name}.svg"));
        if files.contains(&Some(file.clone())) {
            file = folder.join(format!("replay-{name}-{}.svg", files.len() + 1));
        }
        fs::write(&file, draw(key, &tally.timeline)?)
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        files.push(Some(file));
    }
    Ok(files)
}

/// The picture as SVG.
pub(crate) fn draw(name: &str, timeline: &Timeline) -> Result<String, Failed> {
    let mut svg = String::new();
    draw_on(SVGBackend::with_string(&mut svg, SIZE), name, timeline).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw_on<'a>(backend: SVGBackend<'a>, name: &str, timeline: &Timeline) -> DrawResult<(), SVGBackend<'a>> {
    let (bars, width, start) = (timeline.bars(), timeline.width(), timeline.start());
    let end = start + width * bars.len() as u64;
    let most = bars.iter().map(|bar| bar.admitted + bar.denied).max().unwrap_or(0);
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_top(40)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d((start..end).with_key_points(ticks(start, end)), 0..most + most / 20 + 1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(FONT)
        .y_labels(6)
        .x_label_formatter(&|at| label(*at, end - start))
        .y_label_formatter(&|count| grouped(*count))
        .draw()?;
    // The denied above the admitted, each as one shape: a rectangle for each bar would make the file several times larger.
    let admitted = |bar: &Bar| bar.admitted;
    let all = |bar: &Bar| bar.admitted + bar.denied;
    let mut shape = edge(timeline, 0, bars, admitted);
    shape.extend([(end, 0), (start, 0)]);
    chart.draw_series([Polygon::new(shape, ADMITTED.filled())])?;
    let mut first = 0;
    for run in bars.chunk_by(|a, b| (a.denied > 0) == (b.denied > 0)) {
        if run[0].denied > 0 {
            let mut shape = edge(timeline, first, run, all);
            shape.extend(edge(timeline, first, run, admitted).into_iter().rev());
            chart.draw_series([Polygon::new(shape, DENIED.filled())])?;
        }
        first += run.len() as u64;
    }
    let title = format!("{name}: requests per {}", duration(std::time::Duration::from_secs(width)));
    area.draw(&Text::new(title, (80, 14), FONT.into_font()))?;
    for (text, color, x) in [("admitted", ADMITTED, 620), ("denied", DENIED, 730)] {
        area.draw(&Rectangle::new([(x, 15), (x + 14, 27)], color.filled()))?;
        area.draw(&Text::new(text, (x + 20, 14), FONT.into_font()))?;
    }
    area.present()
}

/// The upper edge of some bars from the one with this index on: a step at each change.
fn edge(timeline: &Timeline, first: u64, bars: &[Bar], height: impl Fn(&Bar) -> u64) -> Vec<(u64, u64)> {
    let at = |index: u64| timeline.start() + timeline.width() * index;
    let mut corners = Vec::new();
    let mut index = first;
    for run in bars.chunk_by(|a, b| height(a) == height(b)) {
        let next = index + run.len() as u64;
        corners.extend([(at(index), height(&run[0])), (at(next), height(&run[0]))]);
        index = next;
    }
    corners
}

/// Round times within a span.
fn ticks(start: u64, end: u64) -> Vec<u64> {
    let step = TICKS.into_iter().find(|step| (end - start) / step < MOST_TICKS).unwrap_or(end - start).max(1);
    (start.div_ceil(step)..=end / step).map(|tick| tick * step).collect()
}

/// A tick in UTC: the day or the time of it, as the span asks for.
fn label(at: u64, span: u64) -> String {
    let at = i64::try_from(at).ok().map(OffsetDateTime::from_unix_timestamp).and_then(Result::ok);
    let Some(at) = at else { return String::new() };
    let time = hour(at.time());
    match span {
        0..1_800 => time,
        1_800..172_801 => time[..5].to_owned(),
        _ => at.date().to_string(),
    }
}
