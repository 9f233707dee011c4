//! Texts, times and windows as the page shows them.

use std::borrow::Cow;
use std::time::Duration;

use ratelimit_core::policy::Window;

/// A text of at most `max` characters, and a sign that more was there.
pub(super) fn cut(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A time in words: its two largest units.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A time in microseconds, in milliseconds.
pub(super) fn millis(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

/// A wait in microseconds, rounded up to whole seconds.
pub(super) fn wait(micros: u64) -> String {
    time(Duration::from_secs(micros.div_ceil(1_000_000)))
}

/// A window in the form of the attribute.
pub(super) fn window(micros: u64) -> String {
    let window = Duration::from_micros(micros);
    Window::try_from(window).map_or_else(|_| format!("{window:?}"), |window| window.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!([cut("ab", 2), cut("aöü", 2), cut("", 0), cut("ö", 0)], ["ab", "aö…", "", "…"]);
    }

    #[test]
    fn times_have_their_two_largest_units() {
        let cases = [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3_660, "1 h 1 min"), (90_000, "1 d 1 h")];
        for (seconds, text) in cases {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
        assert_eq!(
            (millis(1_234), wait(1), wait(1_000_001)),
            ("1.23 ms".to_owned(), "1 s".to_owned(), "2 s".to_owned())
        );
        assert_eq!((window(60_000_000), window(5_400_000_000)), ("1m".to_owned(), "1h30m".to_owned()));
    }
}
