//! The picture of a budget per calendar month: what is left of it, from February to April 2026 in Berlin.

use plotters::prelude::*;
use ratelimit_core::policy::Calendar;
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Policy, Timestamp};

use crate::canvas::{BLUE, Drawing, Drawn, FONT, GREY, ORANGE, coordinate, picture, steps, text};

const SIZE: (u32, u32) = (860, 300);
const MAX: u64 = 100;
/// 1 February 2026 in UTC, an hour after it began in Berlin, in seconds.
const START: u64 = 1_769_904_000;
const HOUR: u64 = 3_600;
/// Hours in the picture: 89 days.
const LENGTH: u64 = 89 * 24;
/// Hours between two requests of one unit; every second week there are more.
const CALM: u64 = 9;
const BUSY: u64 = 5;

/// What happens under the budget. Times are hours after the start.
struct Month {
    left: Vec<(u64, u64)>,
    denied: Vec<u64>,
    /// The first hour of each window, and its length in hours.
    windows: Vec<(u64, u64)>,
}

fn run(policy: &Policy) -> Month {
    let mut month = Month { left: Vec::new(), denied: Vec::new(), windows: Vec::new() };
    let mut state = State::new(policy);
    let mut known = 0;
    for hour in 0..=LENGTH {
        let now = Timestamp::from_micros((START + hour * HOUR) * 1_000_000);
        let every = if hour / (14 * 24) % 2 == 0 { CALM } else { BUSY };
        if hour % every == 0 && !state.decide(policy, 1, now, Operation::Check).is_allowed() {
            month.denied.push(hour);
        }
        let peeked = state.clone().decide(policy, 1, now, Operation::Peek);
        month.left.push((hour, peeked.remaining()));
        let end = hour + peeked.reset_after().as_secs() / HOUR;
        if end != known && peeked.remaining() < MAX {
            known = end;
            let length = policy.window_at(now).as_secs() / HOUR;
            month.windows.push((end.saturating_sub(length), length));
        }
    }
    month
}

pub(crate) fn draw() -> String {
    let calendar = Calendar::month(1).in_zone("Europe/Berlin");
    let policy = Policy::builder("picture").max(MAX).calendar(calendar).build();
    let month = run(&policy);
    picture(SIZE, |area| {
        let (head, axes) = area.split_vertically(44);
        text(&head, "max = 100, window = \"month\", zone = \"Europe/Berlin\"", (14, 8), BLACK)?;
        let denied = month.denied.len();
        text(
            &head,
            format!("units left of each month; {denied} requests are denied (orange)"),
            (14, 27),
            BLACK,
        )?;
        draw_axes(&month, &axes).map_err(|error| error.to_string())
    })
}

fn draw_axes<'a>(month: &Month, area: &Drawing<'a>) -> Drawn<'a> {
    let days = (0..=LENGTH / 24).step_by(7).map(|day| coordinate(day * 24)).collect();
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d((0..coordinate(LENGTH)).with_key_points(days), 0..120)?;
    chart
        .configure_mesh()
        .x_desc("days since 1 February 2026")
        .y_desc("units")
        .axis_desc_style(FONT)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|hour| (hour / 24).to_string())
        .draw()?;
    for (from, length) in &month.windows {
        let from = coordinate(*from);
        chart.draw_series(LineSeries::new([(from, 0), (from, 120)], GREY.stroke_width(1)))?;
        let label = Text::new(format!("{length} hours"), (from + 12, 116), FONT.into_font().color(&BLACK));
        chart.draw_series([label])?;
    }
    chart.draw_series(LineSeries::new(steps(&month.left), BLUE.stroke_width(2)))?;
    let crosses =
        month.denied.iter().map(|hour| Cross::new((coordinate(*hour), 4), 3, ORANGE.stroke_width(1)));
    chart.draw_series(crosses)?;
    Ok(())
}
