//! Records the script calls that ours makes, so that they can be sent again: in one write, as those of its
//! rivals, or by a plain client.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use redis::{Cmd, cmd};

use crate::caller::Caller;
use crate::server;

/// One EVALSHA: the digest of its script, the number of keys, keys and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call(Vec<Vec<u8>>);

impl Call {
    /// The number of its keys.
    pub fn keys(&self) -> usize {
        std::str::from_utf8(&self.0[1]).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The same call as if it were made at another instant, in microseconds. Its store must have a test's
    /// clock, so that the instant is the first number of its first argument.
    #[must_use]
    pub fn at(mut self, micros: u64) -> Self {
        let first = 2 + self.keys();
        self.0[first][..8].copy_from_slice(&(micros as f64).to_le_bytes());
        self
    }

    /// The command.
    pub fn command(&self) -> Cmd {
        let mut command = cmd("EVALSHA");
        for argument in &self.0 {
            command.arg(argument);
        }
        command
    }

    /// The command about another caller, whose name takes the place of the digest in the only key.
    pub fn about(&self, caller: Caller) -> Cmd {
        let mut key = self.0[2].clone();
        let (caller, brace) = (caller.as_ref(), key.len() - 1);
        key[brace - caller.len()..brace].copy_from_slice(caller);
        let mut command = cmd("EVALSHA");
        command.arg(&self.0[..2]).arg(key).arg(&self.0[3..]);
        command
    }
}

/// The script calls that the server at this port receives while `act` runs, in their order.
///
/// # Panics
///
/// When the server does not say what it receives.
pub fn record(port: u16, act: impl FnOnce()) -> Vec<Call> {
    const END: &str = "the end of the recording";
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("the server ended"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    act();
    let _: String = server::ask(&server::url(port), cmd("ECHO").arg(END));
    lines.take_while(|line| !line.contains(END)).filter_map(|line| parse(&line)).collect()
}

/// The call of a line such as `+1700000000.000000 [0 127.0.0.1:50000] "evalsha" "1f2e.." "1" "key" "\x00"`.
fn parse(line: &str) -> Option<Call> {
    let (_, mut rest) = line.split_once("] ")?;
    let mut words = Vec::new();
    while let Some(quoted) = rest.trim_start().strip_prefix('"') {
        let (word, behind) = unquote(quoted)?;
        words.push(word);
        rest = behind;
    }
    let is_call = words.first()?.eq_ignore_ascii_case(b"evalsha");
    words.remove(0);
    is_call.then_some(Call(words))
}

/// The bytes before the next quotation mark, and the text behind it.
fn unquote(quoted: &str) -> Option<(Vec<u8>, &str)> {
    let (mut bytes, mut rest) = (Vec::new(), quoted.bytes());
    loop {
        let byte = match rest.next()? {
            b'"' => return Some((bytes, &quoted[quoted.len() - rest.len()..])),
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            },
            other => other,
        };
        bytes.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_with_all_its_bytes() {
        let line = r#"+1.5 [0 127.0.0.1:5] "EVALSHA" "ab" "1" "k\"] \\" "\x00\xffA\n\r\t\a\b""#;
        let call = parse(line).unwrap();
        let arguments: [&[u8]; 4] = [b"ab", b"1", br#"k"] \"#, b"\x00\xffA\n\r\t\x07\x08"];
        assert_eq!(call, Call(arguments.map(<[u8]>::to_vec).into()));
        assert_eq!(call.keys(), 1);
    }

    #[test]
    fn other_commands_are_no_calls() {
        assert_eq!(parse(r#"+1.5 [0 127.0.0.1:5] "PING""#), None);
        assert_eq!(parse(r#"+1.5 [0 lua] "TIME""#), None);
    }

    #[test]
    fn a_call_can_be_about_another_caller() {
        let line = r#"+1.5 [0 127.0.0.1:5] "evalsha" "ab" "1" "rl1:a:c1m:{FwzRx1Fh8AJBaEpWvD3p5w}" "n" "r""#;
        let command = parse(line).unwrap().about(Caller::new(0, 0));
        let key = b"rl1:a:c1m:{Fw00000000000000000000}";
        let expected = cmd("EVALSHA").arg(&[&b"ab"[..], b"1", key, b"n", b"r"]).get_packed_command();
        assert_eq!(command.get_packed_command(), expected);
    }

    #[test]
    fn a_call_can_be_moved_in_time() {
        let line = r#"+1.5 [0 127.0.0.1:5] "evalsha" "ab" "1" "k" "00000000rest" "body""#;
        let Call(arguments) = parse(line).unwrap().at(1);
        assert_eq!(arguments[3], [&1_f64.to_le_bytes()[..], b"rest"].concat());
    }
}
