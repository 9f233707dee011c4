//! Where a reply ends, and its value.

use std::io;

use redis::{RedisResult, Value, parse_redis_value};

/// Longest string, and largest number of elements, of a reply: as in a server's default settings.
const MAX_LENGTH: i64 = 512 * 1024 * 1024;

/// The length of the first reply or command in `bytes`; `None` if its end has not come.
pub(super) fn frame_len(bytes: &[u8]) -> io::Result<Option<usize>> {
    let (mut at, mut elements) = (0_usize, 1_usize);
    while elements > 0 {
        elements -= 1;
        let Some((&kind, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else { return Ok(None) };
        let is_known = b"+-:_,#($!=*~>%|".contains(&kind);
        if !is_known {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        at += 1 + end + 2;
        let length = || length(&rest[..end]);
        match kind {
            // A length below 0 stands for nothing.
            b'$' | b'!' | b'=' => at = at.saturating_add(length()?.map_or(0, |length| length + 2)),
            b'*' | b'~' | b'>' => elements = elements.saturating_add(length()?.unwrap_or(0)),
            b'%' => elements = elements.saturating_add(2 * length()?.unwrap_or(0)),
            // And what the attribute is of.
            b'|' => elements = elements.saturating_add(2 * length()?.unwrap_or(0) + 1),
            _ => {}
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

fn length(digits: &[u8]) -> io::Result<Option<usize>> {
    let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
    let length = length.filter(|length| *length <= MAX_LENGTH).ok_or(io::ErrorKind::InvalidData)?;
    Ok(usize::try_from(length).ok())
}

/// The value of a whole reply; an error of the server as one.
pub(super) fn value_of(frame: &[u8]) -> RedisResult<Value> {
    // The reply of a script, which nearly every reply is.
    if let [b'$', rest @ ..] = frame
        && let Some(end) = rest.iter().position(|byte| *byte == b'\n')
        && let Some(text) = rest[end + 1..].strip_suffix(b"\r\n")
    {
        return Ok(Value::BulkString(text.to_vec()));
    }
    parse_redis_value(frame)?.extract_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [&[u8]; 12] = [
        b"+OK\r\n",
        b"-NOSCRIPT No matching script.\r\n",
        b":12\r\n",
        b"_\r\n",
        b"$4\r\na\r\nb\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*2\r\n$1\r\nx\r\n*1\r\n:1\r\n",
        b"%1\r\n+a\r\n*0\r\n",
        b"|1\r\n+a\r\n:1\r\n$1\r\nx\r\n",
        b">2\r\n+invalidate\r\n*0\r\n",
    ];

    #[test]
    fn a_frame_ends_where_its_last_element_does() {
        for frame in FRAMES {
            let text = frame.escape_ascii();
            assert_eq!(frame_len(frame).unwrap(), Some(frame.len()), "{text}");
            assert_eq!(frame_len(&[frame, b"+next"].concat()).unwrap(), Some(frame.len()), "{text}");
            for part in 0..frame.len() {
                assert_eq!(frame_len(&frame[..part]).unwrap(), None, "{part} of {text}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for bytes in
            [&b"HTTP/1.1 400"[..], b"$x\r\n", b"$9999999999999\r\n", b"*99999999999999999999\r\n", b"\r\n"]
        {
            assert!(frame_len(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn the_value_of_a_frame_is_that_of_the_client_crate() {
        for frame in FRAMES {
            let theirs = parse_redis_value(frame).and_then(Value::extract_error);
            assert_eq!(value_of(frame), theirs, "{}", frame.escape_ascii());
        }
    }
}
