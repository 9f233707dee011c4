//! What stands in header fields: waits as whole seconds, distinct names of limits, and numbers.
//!
//! Numbers become values with few allocations: small ones are in the binary, and others recur.

use std::borrow::Cow;
use std::cell::RefCell;
use std::time::Duration;

use actix_web::http::header::HeaderValue;
use ratelimit_core::{Decision, Outcome, Timestamp};
use smallvec::SmallVec;

use crate::quotas::Quota;

/// Numbers below this are in the binary.
const SMALL: usize = 1000;

/// Their digits, padded to three each.
static DIGITS: [u8; 3 * SMALL] = {
    let mut digits = [b'0'; 3 * SMALL];
    let mut number = 0;
    while number < SMALL {
        let mut rest = number;
        let mut place = 3;
        while place > 0 {
            place -= 1;
            #[allow(clippy::cast_possible_truncation, reason = "a digit")]
            let digit = (rest % 10) as u8;
            digits[3 * number + place] = b'0' + digit;
            rest /= 10;
        }
        number += 1;
    }
    digits
};

/// A cache of one thread: for each remainder the last number, and its header value if the number has
/// recurred.
struct Remembered<const N: usize>([Option<(u64, Option<HeaderValue>)>; N]);

thread_local! {
    // Successive responses report the same limits, and the same instants, of which there are more.
    static LIMITS: RefCell<Remembered<16>> = const { RefCell::new(Remembered([const { None }; 16])) };
    static RESETS: RefCell<Remembered<64>> = const { RefCell::new(Remembered([const { None }; 64])) };
}

/// A number in decimal.
pub(crate) fn number(number: u64) -> HeaderValue {
    small(number).unwrap_or_else(|| digits(number))
}

/// The size of a quota in decimal.
pub(super) fn limit(number: u64) -> HeaderValue {
    small(number).unwrap_or_else(|| LIMITS.with_borrow_mut(|limits| limits.get(number)))
}

/// The instant or wait of `Reset` in decimal.
pub(super) fn reset(number: u64) -> HeaderValue {
    small(number).unwrap_or_else(|| RESETS.with_borrow_mut(|resets| resets.get(number)))
}

/// Appends `;name=number`, a parameter of a structured field.
pub(super) fn push_parameter(text: &mut String, name: &str, number: u64) {
    text.push(';');
    text.push_str(name);
    text.push('=');
    text.push_str(itoa::Buffer::new().format(number));
}

fn small(number: u64) -> Option<HeaderValue> {
    let small = usize::try_from(number).ok().filter(|small| *small < SMALL)?;
    let from = 3 * small + if small < 10 { 2 } else { usize::from(small < 100) };
    let digits = str::from_utf8(&DIGITS[from..3 * small + 3]).unwrap_or_default();
    Some(HeaderValue::from_static(digits))
}

impl<const N: usize> Remembered<N> {
    fn get(&mut self, number: u64) -> HeaderValue {
        #[allow(clippy::cast_possible_truncation, reason = "a remainder")]
        let place = &mut self.0[(number % N as u64) as usize];
        match place {
            Some((known, Some(value))) if *known == number => value.clone(),
            Some((known, value)) if *known == number => value.insert(digits(number)).clone(),
            // A shared value costs one more allocation, too much for a number that does not recur.
            _ => {
                *place = Some((number, None));
                digits(number)
            }
        }
    }
}

fn digits(number: u64) -> HeaderValue {
    let digits = HeaderValue::from_str(itoa::Buffer::new().format(number));
    // Digits are always valid.
    digits.unwrap_or_else(|_| HeaderValue::from(number))
}

/// The wait of a denied client until the next request passes all limits. Limits that admitted the request but
/// have nothing left count, too; each wait begins with the decision of its own limit, moments ago. No process
/// knows when slots are freed, so they do not count. `None` if the request was not denied, can never pass, or
/// misses only slots.
pub(crate) fn retry_after(quotas: &[&Quota]) -> Option<Duration> {
    let denied = || quotas.iter().map(|quota| quota.outcome()).filter(|outcome| !outcome.is_allowed());
    let is_never = |outcome: &Outcome| outcome.decision() == Decision::Denied { retry_after: None };
    if denied().next().is_none() || denied().any(is_never) {
        return None;
    }
    let exhausted = quotas.iter().filter(|quota| quota.is_exhausted() && quota.is_rate());
    exhausted.map(|quota| quota.outcome().available_after()).max()
}

/// The longest wait that a timer of JavaScript takes, in seconds: a longer one ends at once.
const LONGEST_TIMER: u64 = i32::MAX as u64 / 1_000;

/// The value of `Retry-After`: whole seconds, rounded up so that no client returns too early, from 1 to the
/// longest that clients wait.
pub(crate) fn retry_after_seconds(wait: Duration) -> u64 {
    seconds(wait).clamp(1, LONGEST_TIMER)
}

/// Whole seconds, rounded up.
pub(super) fn seconds(time: Duration) -> u64 {
    let started = u64::from(time.subsec_nanos() > 0);
    time.as_secs().saturating_add(started)
}

/// An instant in whole Unix seconds, rounded up.
pub(super) fn unix_seconds(at: Timestamp) -> u64 {
    at.as_micros().div_ceil(1_000_000)
}

/// The window in whole seconds, rounded up. `None` below one second, which the drafts cannot express.
pub(super) fn window_seconds(quota: &Quota) -> Option<u64> {
    let window = quota.effective_window();
    (window >= Duration::from_secs(1)).then(|| seconds(window))
}

/// The name of each quota, made distinct for header fields and `violated-policies`.
///
/// Limits of one handler may have the same name, for example for two kinds of callers. The second then gets
/// the suffix `-2`, the third `-3`.
pub(crate) fn unique_names<'a>(quotas: &[&'a Quota]) -> SmallVec<[Cow<'a, str>; 4]> {
    let mut names: SmallVec<[Cow<'a, str>; 4]> = SmallVec::new();
    for (position, quota) in quotas.iter().enumerate() {
        let name = quota.name();
        let before = quotas[..position].iter().filter(|other| other.name() == name).count();
        if before == 0 {
            names.push(Cow::Borrowed(name));
            continue;
        }
        // A policy may be named `x-2`.
        let mut candidates = (before + 1..).map(|number| Cow::Owned(format!("{name}-{number}")));
        let is_free = |candidate: &Cow<'_, str>| {
            !names.contains(candidate) && quotas.iter().all(|other| other.name() != candidate.as_ref())
        };
        names.extend(candidates.find(is_free));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written_in_decimal() {
        let large = [1000, 1001, 1016, 1000, 9_999, 1_790_000_000, u64::MAX - 1, u64::MAX];
        for n in (0..1100).chain(large).chain(large).chain(large) {
            assert_eq!(number(n).to_str().unwrap(), n.to_string());
            assert_eq!(limit(n), number(n));
            assert_eq!(reset(n), number(n));
        }
    }

    #[test]
    fn unix_seconds_are_rounded_up() {
        let rounded = |micros| unix_seconds(Timestamp::from_micros(micros));
        let cases = [(0, 0), (1, 1), (9_999_999, 10), (10_000_000, 10), (10_000_001, 11)];
        for (micros, expected) in cases {
            assert_eq!(rounded(micros), expected, "{micros}");
        }
        assert_eq!(rounded(u64::MAX), 18_446_744_073_710);
    }
}
