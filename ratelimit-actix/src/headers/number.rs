//! Numbers as header values, without an allocation for each: small ones are part of the program, and others recur.

use std::cell::RefCell;

use actix_web::http::header::HeaderValue;

/// Numbers below this are part of the program.
const SMALL: usize = 1000;

/// Their digits, three for each, padded in front.
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

/// Numbers that a thread remembers: of each remainder the last.
const REMEMBERED: usize = 16;

thread_local! {
    // The same limit, and the same instant of reset, go to one client after another.
    static LAST: RefCell<[Option<(u64, HeaderValue)>; REMEMBERED]> =
        const { RefCell::new([const { None }; REMEMBERED]) };
}

/// A number, in decimal.
pub(crate) fn number(number: u64) -> HeaderValue {
    small(number).unwrap_or_else(|| digits(number))
}

/// A number that is likely to be asked for again, in decimal. One that is not would only drive others out.
pub(crate) fn recurring(number: u64) -> HeaderValue {
    small(number).unwrap_or_else(|| remembered(number))
}

fn small(number: u64) -> Option<HeaderValue> {
    let small = usize::try_from(number).ok().filter(|&small| small < SMALL)?;
    let from = 3 * small + if small < 10 { 2 } else { usize::from(small < 100) };
    let digits = str::from_utf8(&DIGITS[from..3 * small + 3]).unwrap_or_default();
    Some(HeaderValue::from_static(digits))
}

fn remembered(number: u64) -> HeaderValue {
    LAST.with_borrow_mut(|last| {
        #[allow(clippy::cast_possible_truncation, reason = "a remainder")]
        let place = &mut last[(number % REMEMBERED as u64) as usize];
        match place {
            Some((known, value)) if *known == number => value.clone(),
            _ => place.insert((number, digits(number))).1.clone(),
        }
    })
}

fn digits(number: u64) -> HeaderValue {
    let digits = HeaderValue::from_str(itoa::Buffer::new().format(number));
    // Digits always make a value.
    digits.unwrap_or_else(|_| HeaderValue::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written_in_decimal() {
        let large = [1000, 1001, 1016, 1000, 9_999, 1_790_000_000, u64::MAX - 1, u64::MAX];
        for n in (0..1100).chain(large).chain(large) {
            assert_eq!(number(n).to_str().unwrap(), n.to_string());
            assert_eq!(recurring(n), number(n));
        }
    }
}
