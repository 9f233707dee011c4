//! The values of `window`, `zone` and `anchor` for windows of a calendar.

mod table;

use proc_macro2::Span;
use syn::{Expr, Lit};

use self::table::{CALENDAR_UNITS, has_day};
pub(crate) use self::table::{CalendarUnit, WEEKDAYS};
use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{describe, expect_str, literal};
use crate::parse::code::request_fn::{self, RequestFn};
use crate::parse::code::tokens::path_text;
use crate::parse::suggest::{list, nearest};
use crate::parse::usage::Usage;
use crate::parse::values::name::Text;
use crate::parse::values::path::is_constant;
use crate::parse::values::window::{Length, time};

/// The window of a limit.
pub(crate) enum Window {
    Length(Length),
    Calendar(CalendarUnit, Span),
}

impl Window {
    /// The unit of a calendar window.
    pub(crate) const fn unit(&self) -> Option<CalendarUnit> {
        if let Self::Calendar(unit, _) = self { Some(*unit) } else { None }
    }

    /// The length in microseconds. `None` for a calendar window.
    pub(crate) const fn micros(&self) -> Option<u64> {
        if let Self::Length(window) = self { Some(window.micros) } else { None }
    }
}

/// The day on which windows begin: constant, or chosen per request.
pub(crate) enum Anchor {
    Fixed(AnchorDay, Span),
    PerRequest(RequestFn),
}

impl Anchor {
    /// The constant day.
    pub(crate) fn fixed(&self) -> Option<AnchorDay> {
        if let Self::Fixed(day, _) = self { Some(*day) } else { None }
    }

    /// The code that chooses the day per request.
    pub(crate) fn per_request(&self) -> Option<&RequestFn> {
        if let Self::PerRequest(function) = self { Some(function) } else { None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnchorDay {
    /// Of a week: the index of its name.
    Week(usize),
    /// Of a month.
    Month(u8),
    /// Month and day.
    Year(u8, u8),
}

impl CalendarUnit {
    /// An anchor as it is written.
    pub(crate) const fn anchor_example(self) -> Option<&'static str> {
        match self {
            Self::Day => None,
            Self::Week => Some("anchor = \"sunday\""),
            Self::Month => Some("anchor = 15"),
            Self::Year => Some("anchor = \"04-01\""),
        }
    }

    /// Whether windows can begin on such a day.
    pub(crate) const fn takes(self, day: AnchorDay) -> bool {
        matches!(
            (self, day),
            (Self::Week, AnchorDay::Week(_))
                | (Self::Month, AnchorDay::Month(_))
                | (Self::Year, AnchorDay::Year(..))
        )
    }
}

/// All units, as they are written.
pub(crate) fn calendar_units() -> String {
    list(CALENDAR_UNITS.iter().map(|(_, name, ..)| *name), '"')
}

/// Reads the window of a limit.
pub(crate) fn window(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Window, Reported> {
    let name = usage.name;
    if let Some(Lit::Str(text)) = literal(&value) {
        let plain: String =
            text.value().chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        for (unit, word, spellings) in &CALENDAR_UNITS {
            if text.value() == *word {
                if cfg!(any(test, feature = "calendar")) {
                    return Ok(Window::Calendar(*unit, text.span()));
                }
                let fault = format!(
                    "`window = \"{word}\"` needs the feature `calendar` of ratelimit-actix; write `features = [\"calendar\"]` \
                     in Cargo.toml"
                );
                return Err(diagnostics.error(value, fault));
            }
            if plain == *word || spellings.contains(&plain.as_str()) {
                let fault = format!("unknown window {:?}; did you mean `{name} = \"{word}\"`?", text.value());
                return Err(diagnostics.error(value, fault));
            }
        }
    }
    time(usage, value, diagnostics).map(Window::Length)
}

/// Reads the IANA name of a time zone. The program looks it up when it starts.
pub(crate) fn zone(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Text, Reported> {
    let Usage { name, example, .. } = usage;
    let fault = match expect_str(usage, &value) {
        Ok(text) => {
            let (zone, span) = (text.value(), text.span());
            let is_name = zone.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && zone.chars().all(|letter| letter.is_ascii_alphanumeric() || "/_-+".contains(letter));
            if is_name {
                return Ok(Text { text: zone, span });
            }
            format!(
                "`{name}` takes the IANA name of a time zone, found {zone:?}; write for example `{example}`"
            )
        }
        Err(fault) => fault,
    };
    Err(diagnostics.error(value, fault))
}

/// Reads the day on which windows begin, or code that chooses it per request.
pub(crate) fn anchor(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Anchor, Reported> {
    let name = usage.name;
    if let Some(function) = request_fn::read(name, &value, diagnostics) {
        return function.map(Anchor::PerRequest);
    }
    let fault = match literal(&value) {
        Some(Lit::Int(integer)) => match integer.base10_parse::<u8>() {
            Ok(day @ 1..=31) if integer.suffix().is_empty() => {
                return Ok(Anchor::Fixed(AnchorDay::Month(day), integer.span()));
            }
            _ => format!(
                "`{name}` of a month must be from 1 to 31, found {integer}; write for example `{name} = 15`"
            ),
        },
        Some(Lit::Str(text)) => match day_of(&text.value()) {
            Ok(day) => return Ok(Anchor::Fixed(day, text.span())),
            Err(meant) => {
                let meant =
                    meant.map_or_else(String::new, |meant| format!("; did you mean `{name} = {meant}`?"));
                format!(
                    "unknown day {:?}{meant}\nexpected the day of a month such as `{name} = 15`, month and day of a year such \
                     as `{name} = \"04-01\"`, or one of: {}",
                    text.value(),
                    list(WEEKDAYS.iter().map(|(name, _)| *name), '"')
                )
            }
        },
        _ => {
            let found = match &value {
                Expr::Path(path) if is_constant(path) => format!(
                    "; `{}` is named like a constant, and a constant day is written as a literal, such as `{name} = 15`",
                    path_text(path)
                ),
                Expr::Path(path) => format!("; did you mean `{name} = with({})`?", path_text(path)),
                other => format!(", not {}", describe(other)),
            };
            format!(
                "`{name}` takes a day such as `15`, \"sunday\" or \"04-01\", a closure such as `|user: web::ReqData<User>| ..`, or \
                 `with(function)`{found}"
            )
        }
    };
    Err(diagnostics.error(value, fault))
}

/// The day of a text, or what was probably meant, as it is written.
fn day_of(text: &str) -> Result<AnchorDay, Option<String>> {
    if let Some(index) = WEEKDAYS.iter().position(|(name, _)| *name == text) {
        return Ok(AnchorDay::Week(index));
    }
    if let Some((month, day)) = text.split_once('-') {
        let (month_number, day_number) = (month.parse().unwrap_or(0), day.parse().unwrap_or(0));
        if has_day(month_number, day_number) {
            let usual = format!("{month_number:02}-{day_number:02}");
            return if usual == text {
                Ok(AnchorDay::Year(month_number, day_number))
            } else {
                Err(Some(format!("{usual:?}")))
            };
        }
        let is_swapped = has_day(day_number, month_number);
        return Err(is_swapped.then(|| format!("\"{day_number:02}-{month_number:02}\"")));
    }
    if let Ok(day @ 1..=31) = text.parse::<u8>() {
        return Err(Some(day.to_string()));
    }
    let lower = text.to_lowercase();
    let short =
        WEEKDAYS.iter().find(|(name, _)| lower.len() >= 2 && name.starts_with(&lower)).map(|(name, _)| *name);
    Err(short
        .or_else(|| nearest(text, WEEKDAYS.iter().map(|(name, _)| *name)))
        .map(|name| format!("{name:?}")))
}
