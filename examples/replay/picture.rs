//! The picture of a limit: requests over time, admitted and denied.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failed;
use crate::report::{date, time};

/// Most bars, and most labels below them.
const MOST: (u64, u64) = (300, 9);
/// Seconds of a bar, and between two labels.
const STEPS: [u64; 12] = [1, 5, 15, 60, 300, 900, 3_600, 10_800, 86_400, 604_800, 2_419_200, 31_449_600];

/// Requests by their seconds: how many were admitted, and how many denied.
pub(crate) type Seconds = BTreeMap<u64, (u64, u64)>;

/// Writes the picture of a limit into a folder.
pub(crate) fn write(folder: &Path, name: &str, seconds: &Seconds) -> Result<PathBuf, Failed> {
    let file = folder.join(format!("replay-{name}.svg"));
    let failed = |error| format!("{} cannot be written: {error}", file.display());
    fs::write(&file, draw(name, seconds)?).map_err(failed)?;
    Ok(file)
}

/// The smallest step of which a span has fewer than `most`.
fn step(span: u64, most: u64) -> u64 {
    STEPS.into_iter().find(|step| span / step < most).unwrap_or(span)
}

/// The picture as SVG. Its colours are told apart without red and green.
fn draw(name: &str, seconds: &Seconds) -> Result<String, Failed> {
    let (first, last) = (seconds.keys().next().unwrap_or(&0), seconds.keys().last().unwrap_or(&0));
    let width = step(last - first, MOST.0 - 1);
    let (start, end) = (first / width * width, (last / width + 1) * width);
    let bars = (start..end).step_by(usize::try_from(width)?).map(|from| {
        let of_bar = seconds.range(from..from + width);
        of_bar.fold((from, 0, 0), |sum, (_, counts)| (from, sum.1 + counts.0, sum.2 + counts.1))
    });
    let bars: Vec<_> = bars.collect();
    let most = bars.iter().map(|bar| bar.1 + bar.2).max().unwrap_or(0).max(1);
    let (x, y) = (|at| 80 + (at - start) * 770 / (end - start), |count| 265 - count * 220 / most);
    // All requests, and the admitted before them, each as one shape.
    let (mut all, mut admitted) = ("M80 265".to_owned(), "M80 265".to_owned());
    for (from, passed, denied) in bars {
        write!(all, "V{}H{}", y(passed + denied), x(from + width))?;
        write!(admitted, "V{}H{}", y(passed), x(from + width))?;
    }
    let per = time(Duration::from_secs(width));
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 300" font-family="sans-serif" font-size="14">
<rect width="860" height="300" fill="#fff"/>
<path fill="#d55e00" d="{all}V265z"/>
<path fill="#0072b2" d="{admitted}V265z"/>
<path stroke="#000" fill="none" d="M75 45h5V265H850"/>
<text x="80" y="26">{name}: requests per {per}</text>
<text x="620" y="26" fill="#0072b2">admitted</text>
<text x="730" y="26" fill="#d55e00">denied</text>
<text x="70" y="50" text-anchor="end">{most}</text>
"##
    );
    let (label, is_long) = (step(end - start, MOST.1), end - start > 2 * 86_400);
    for at in (start.next_multiple_of(label)..=end).step_by(usize::try_from(label)?) {
        let text = date(at, if is_long { "%F" } else { "%T" });
        writeln!(svg, r#"<text x="{}" y="285" text-anchor="middle">{text}</text>"#, x(at))?;
    }
    Ok(svg + "</svg>\n")
}
