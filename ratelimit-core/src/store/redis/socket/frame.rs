//! Where a reply ends, and its value.

use std::io;

use redis::{ErrorKind, RedisError, RedisResult, Value, parse_redis_value};

/// Longest reply or command in bytes: far longer than any that calls have, and little enough to hold in memory.
pub(super) const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Fewest bytes of an element.
const MIN_ELEMENT: usize = 3;

/// Where a reply or command ends of which a part may be missing. It goes on where it stopped, so that each byte is read once.
pub(super) struct FrameEnd {
    /// Where the next element begins.
    at: usize,
    /// Up to where the end of that element's first line was looked for.
    searched: usize,
    /// Elements that are still to come.
    elements: usize,
}

impl Default for FrameEnd {
    /// At the beginning of a frame.
    fn default() -> Self {
        Self { at: 0, searched: 0, elements: 1 }
    }
}

impl FrameEnd {
    /// The length of the frame at the beginning of `bytes`; `None` if its end has not come: then the same bytes, and more, are to be
    /// passed again. Behind an end another frame begins.
    pub(super) fn find(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        while self.elements > 0 {
            let Some(&kind) = bytes.get(self.at) else { return Ok(None) };
            let is_known = b"+-:_,#($!=*~>%|".contains(&kind);
            if !is_known {
                return Err(no_reply());
            }
            let line = self.at + 1;
            let from = self.searched.max(line);
            let Some(end) = bytes[from..].windows(2).position(|pair| pair == b"\r\n") else {
                // The last byte may be the first one of the end.
                self.searched = bytes.len().saturating_sub(1);
                return if bytes.len() > MAX_FRAME { Err(too_long()) } else { Ok(None) };
            };
            let end = from + end;
            let length = || length(&bytes[line..end]);
            self.at = end + 2;
            self.elements -= 1;
            let (text, elements) = match kind {
                // A length below 0 stands for nothing.
                b'$' | b'!' | b'=' => (length()?.map_or(0, |length| length + 2), 0),
                b'*' | b'~' | b'>' => (0, length()?.unwrap_or(0)),
                b'%' => (0, 2 * length()?.unwrap_or(0)),
                // And what the attribute is of.
                b'|' => (0, 2 * length()?.unwrap_or(0) + 1),
                _ => (0, 0),
            };
            self.at += text;
            self.elements += elements;
            if self.at + MIN_ELEMENT * self.elements > MAX_FRAME {
                return Err(too_long());
            }
        }
        if self.at > bytes.len() {
            return Ok(None);
        }
        let length = self.at;
        *self = Self::default();
        Ok(Some(length))
    }
}

fn no_reply() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server sent what is no reply")
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server sent a reply of more than 16 MiB")
}

fn length(digits: &[u8]) -> io::Result<Option<usize>> {
    let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
    let length = usize::try_from(length.ok_or_else(no_reply)?).ok();
    if length.is_some_and(|length| length > MAX_FRAME) { Err(too_long()) } else { Ok(length) }
}

/// The value of a whole reply to a call; an error of the server as one. No call has several values for a reply, which could take many
/// times the memory of the frame.
pub(super) fn value_of(frame: &[u8]) -> RedisResult<Value> {
    // The reply of a script, which nearly every reply is.
    if let [b'$', rest @ ..] = frame
        && let Some(end) = rest.iter().position(|byte| *byte == b'\n')
        && let Some(text) = rest[end + 1..].strip_suffix(b"\r\n")
    {
        return Ok(Value::BulkString(text.to_vec()));
    }
    if let [b'*' | b'~' | b'%' | b'|', ..] = frame {
        return Err(RedisError::from((ErrorKind::Parse, "the reply to a call has several values")));
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
            let two = [frame, b"+next\r\n"].concat();
            // All at once, byte by byte, and in larger parts.
            for step in 1..=two.len() {
                let (mut end, mut seen) = (FrameEnd::default(), 0);
                let length = loop {
                    seen = (seen + step).min(two.len());
                    if let Some(length) = end.find(&two[..seen]).unwrap() {
                        break length;
                    }
                };
                assert_eq!(length, frame.len(), "{text} in parts of {step}");
                assert!(seen < length + step, "{text} in parts of {step}: after {seen}");
                assert_eq!(end.find(&two[length..]).unwrap(), Some(7), "{text}: and the next one");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for bytes in [&b"HTTP/1.1 400"[..], b"$x\r\n", b"*99999999999999999999\r\n", b"\r\n"] {
            let error = FrameEnd::default().find(bytes).unwrap_err();
            assert_eq!(error.to_string(), "the server sent what is no reply", "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_frame_has_16_mib_at_most() {
        let longest =
            |head: &str| [head.as_bytes(), &vec![b'x'; MAX_FRAME - head.len() - 2], b"\r\n"].concat();
        for frame in [longest("-"), longest("$16777203\r\n")] {
            assert_eq!(FrameEnd::default().find(&frame).unwrap(), Some(MAX_FRAME));
        }
        // As soon as it is announced, or has come.
        let line = [&b"-"[..], &vec![b'x'; MAX_FRAME]].concat();
        let announced = [&b"$16777204\r\n"[..], b"$9999999999999\r\n", b"*5592403\r\n", b"%16777216\r\n"];
        for bytes in announced.into_iter().chain([&line[..]]) {
            let error = FrameEnd::default().find(bytes).unwrap_err();
            assert_eq!(error.to_string(), "the server sent a reply of more than 16 MiB");
        }
    }

    #[test]
    fn no_byte_is_read_twice() {
        let line = [&b"-"[..], &[b'x'; 10_000], b"\r\n"].concat();
        for frame in [[&b"*1\r\n".repeat(3_000)[..], b"_\r\n"].concat(), line] {
            let mut end = FrameEnd::default();
            for seen in 1..frame.len() {
                assert_eq!(end.find(&frame[..seen]).unwrap(), None);
                // Where it goes on: behind a line, or at a byte that may be the first one of a line's end.
                let next = end.at.max(end.searched);
                assert!(next + 1 >= seen, "{next} of {seen}");
            }
            assert_eq!(end.find(&frame).unwrap(), Some(frame.len()));
        }
    }

    #[test]
    fn the_value_of_a_frame_is_that_of_the_client_crate() {
        for frame in FRAMES {
            let text = frame.escape_ascii();
            if b"*%|~".contains(&frame[0]) {
                assert_eq!(value_of(frame).unwrap_err().kind(), ErrorKind::Parse, "{text}");
            } else {
                assert_eq!(
                    value_of(frame),
                    parse_redis_value(frame).and_then(Value::extract_error),
                    "{text}"
                );
            }
        }
    }
}
