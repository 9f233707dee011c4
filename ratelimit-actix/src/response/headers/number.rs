//! Numbers as header values with few allocations: small ones are in the binary, and others recur.

use std::cell::RefCell;

use actix_web::http::header::HeaderValue;

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

/// A cache of one thread: for each remainder the last number, and its header value if the number has recurred.
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
}
