//! Tables of forwarding header fields and the addresses in them.

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const PEER: &str = "10.0.0.1";

/// The client behind a trusted peer. All of `10.0.0.0/8` and `2001:db8:a::/48` is trusted.
fn client(header: &ForwardedHeader, lines: &[&[u8]]) -> String {
    let mut headers = HeaderMap::new();
    for line in lines {
        // HTTP rejects invalid bytes before they arrive here.
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(header.name().clone(), value);
        }
    }
    let is_trusted = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.segments()[..3] == [0x2001, 0xdb8, 0xa],
    };
    header.client(&headers, PEER.parse().unwrap(), is_trusted).to_string()
}

fn x_forwarded_for(line: &str) -> String {
    client(&ForwardedHeader::XForwardedFor, &[line.as_bytes()])
}

fn forwarded(line: &str) -> String {
    client(&ForwardedHeader::Forwarded, &[line.as_bytes()])
}

#[test]
fn x_forwarded_for_is_read_from_the_right_over_trusted_hops() {
    let cases = [
        ("203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9", "203.0.113.9"),
        ("1.2.3.4,203.0.113.9,10.0.0.2", "203.0.113.9"),
        ("1.2.3.4 , 203.0.113.9\t, 10.0.0.2 , 10.0.0.3 ", "203.0.113.9"),
        ("203.0.113.9, 2001:db8:a::1", "203.0.113.9"),
        ("10.0.0.4, 10.0.0.3", "10.0.0.4"),
        // Ends at the last trusted hop.
        ("", PEER),
        (",", PEER),
        (", ,", PEER),
        ("203.0.113.9,", PEER),
        ("203.0.113.9, , 10.0.0.2", "10.0.0.2"),
        ("203.0.113.9, unknown, 10.0.0.2", "10.0.0.2"),
        ("203.0.113.9, _hidden", PEER),
        ("unknown, 203.0.113.9", "203.0.113.9"),
    ];
    for (line, expected) in cases {
        assert_eq!(x_forwarded_for(line), expected, "{line:?}");
    }
}

#[test]
fn only_valid_spellings_of_an_address_are_read() {
    let cases = [
        ("1.2.3.4:80", "1.2.3.4"),
        ("1.2.3.4:65535", "1.2.3.4"),
        ("1.2.3.4:_port", "1.2.3.4"),
        ("\"1.2.3.4\"", "1.2.3.4"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("\"[2001:db8::1]:443\"", "2001:db8::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::FFFF:102:304", "1.2.3.4"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
        ("2001:db8::1.2.3.4", "2001:db8::102:304"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:80", "fe80::1"),
        ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
        ("2002:102:304::1", "2002:102:304::1"),
        // Not addresses.
        ("01.2.3.4", PEER),
        ("1.2.3", PEER),
        ("1.2.3.4.5", PEER),
        ("0x7f.1", PEER),
        ("0x7f.0.0.1", PEER),
        ("2130706433", PEER),
        ("1.2.3.256", PEER),
        ("1.2.3.4:", PEER),
        ("1.2.3.4:80:80", PEER),
        ("1.2.3.4:65536", PEER),
        ("1.2.3.4:+80", PEER),
        ("1.2.3.4:_", PEER),
        ("1.2.3.4%eth0", PEER),
        ("[1.2.3.4]", PEER),
        ("[2001:db8::1", PEER),
        ("[2001:db8::1]443", PEER),
        ("[2001:db8::1]:", PEER),
        ("2001:db8::1]", PEER),
        ("fe80::1%", PEER),
        ("\"1.2.3.4", PEER),
        ("1.2.3.4 5.6.7.8", PEER),
        ("localhost", PEER),
        ("１.２.３.４", PEER),
        ("for=1.2.3.4", PEER),
    ];
    for (line, expected) in cases {
        assert_eq!(x_forwarded_for(line), expected, "{line:?}");
    }
}

#[test]
fn forwarded_is_read_as_in_rfc_7239() {
    let cases = [
        ("for=203.0.113.9", "203.0.113.9"),
        ("For=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"),
        ("proto=http; for=203.0.113.9 ; host=example.org", "203.0.113.9"),
        ("for=\"203.0.113.9:47011\"", "203.0.113.9"),
        ("for=\"[2001:db8::1]:443\"", "2001:db8::1"),
        ("for=\"[2001:db8:\\:1]\"", "2001:db8::1"),
        ("for=\"\\2\\0\\3.0.113.9\"", "203.0.113.9"),
        ("for=1.2.3.4, for=203.0.113.9, for=10.0.0.2", "203.0.113.9"),
        (";for=203.0.113.9;", "203.0.113.9"),
        ("host=\"a,b;for=1.2.3.4\";for=203.0.113.9", "203.0.113.9"),
        ("for=1.2.3.4, host=\"a\\\",b\";for=203.0.113.9", "203.0.113.9"),
        // A quote that the client left open does not swallow what a proxy appended.
        ("for=\"1.2.3.4, for=203.0.113.9", "203.0.113.9"),
        ("for=1.2.3.4;by=\", for=\"[2001:db8::9]\"", "2001:db8::9"),
        ("for=\"1.2.3.4\\, for=203.0.113.9", "203.0.113.9"),
        // No address.
        ("for=unknown", PEER),
        ("for=_hidden", PEER),
        ("for=\"_SEVKISEK\"", PEER),
        ("by=203.0.113.9", PEER),
        ("for=1.2.3.4;for=5.6.7.8", PEER),
        ("for=", PEER),
        ("for", PEER),
        ("for =1.2.3.4", PEER),
        ("for=\"1.2.3.4", PEER),
        ("for=\"1.2.3.4\"x", PEER),
        ("203.0.113.9", PEER),
        ("for=203.0.113.9, for=unknown, for=10.0.0.2", "10.0.0.2"),
    ];
    for (line, expected) in cases {
        assert_eq!(forwarded(line), expected, "{line:?}");
    }
}

#[test]
fn several_lines_are_one_list() {
    let lines: [&[u8]; 3] = [b"1.2.3.4", b"5.6.7.8, 203.0.113.9", b"10.0.0.2"];
    assert_eq!(client(&ForwardedHeader::XForwardedFor, &lines), "203.0.113.9");
    let lines: [&[u8]; 2] = [b"203.0.113.9", b""];
    assert_eq!(client(&ForwardedHeader::XForwardedFor, &lines), PEER);
}

#[test]
fn a_single_address_that_occurs_twice_is_ignored() {
    let header = ForwardedHeader::Single(HeaderName::from_static("x-real-ip"));
    let cases: [(&[&[u8]], &str); 6] = [
        (&[b"203.0.113.9"], "203.0.113.9"),
        (&[b" [2001:db8::1]:80 "], "2001:db8::1"),
        (&[b"203.0.113.9", b"203.0.113.9"], PEER),
        (&[b"1.2.3.4, 203.0.113.9"], PEER),
        (&[b"\xff\xfe"], PEER),
        (&[], PEER),
    ];
    for (lines, expected) in cases {
        assert_eq!(client(&header, lines), expected, "{lines:?}");
    }
}

#[test]
fn only_a_bounded_part_of_a_value_is_read() {
    let trusted = |hops| vec!["10.0.0.2"; hops].join(",");
    assert_eq!(x_forwarded_for(&format!("203.0.113.9,{}", trusted(99))), "203.0.113.9");
    assert_eq!(x_forwarded_for(&format!("203.0.113.9,{}", trusted(100))), "10.0.0.2");
    assert_eq!(x_forwarded_for(&format!("{},203.0.113.9", trusted(10_000))), "203.0.113.9");
    assert_eq!(x_forwarded_for(&format!("203.0.113.9,{}", "x".repeat(1 << 20))), PEER);
    assert_eq!(x_forwarded_for(&format!("{},203.0.113.9", " ".repeat(1 << 20))), "203.0.113.9");
    assert_eq!(forwarded(&format!("for=\"{}\"", "1".repeat(MAX_NODE + 1))), PEER);
    assert_eq!(forwarded(&format!("for=1.2.3.4;host=\"{}\"", "a".repeat(500))), "1.2.3.4");
    assert_eq!(forwarded(&format!("for=1.2.3.4;host=\"{}\"", "\\".repeat(1 << 20))), PEER);
}

/// The time for which this thread has computed, if the system tells it; otherwise the time.
#[allow(clippy::disallowed_methods, reason = "this is about time")]
fn computed() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = schedstat.and_then(|numbers| numbers.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// A value of 1 MiB and 10,000 hops costs as much as a short one. The limit is several times as long as
/// 20,000 reads of the bounded part take without optimization, and a fraction of the time for the whole value
/// with optimization.
#[test]
fn a_long_value_takes_no_longer_than_a_short_one() {
    let hops = |hop: &str| {
        let mut value = format!("{hop},").repeat(10_000);
        value.insert_str(0, &"x".repeat((1 << 20) - value.len()));
        HeaderValue::try_from(value).unwrap()
    };
    let cases = [
        (ForwardedHeader::XForwardedFor, hops("10.0.0.2")),
        (ForwardedHeader::XForwardedFor, HeaderValue::try_from("x".repeat(1 << 20)).unwrap()),
        (ForwardedHeader::XForwardedFor, HeaderValue::try_from(" ".repeat(1 << 20)).unwrap()),
        (ForwardedHeader::Forwarded, hops("for=10.0.0.2")),
        (ForwardedHeader::Forwarded, HeaderValue::try_from("\"".repeat(1 << 20)).unwrap()),
        (ForwardedHeader::Forwarded, HeaderValue::try_from("\\\"".repeat(1 << 19)).unwrap()),
        (ForwardedHeader::Forwarded, HeaderValue::try_from(";".repeat(1 << 20)).unwrap()),
        (ForwardedHeader::Single(X_REAL_IP.clone()), HeaderValue::try_from("1".repeat(1 << 20)).unwrap()),
        (ForwardedHeader::Single(X_REAL_IP.clone()), HeaderValue::try_from(" ".repeat(1 << 20)).unwrap()),
    ];
    for (header, value) in cases {
        let mut headers = HeaderMap::new();
        headers.append(header.name().clone(), value);
        let begun = computed();
        for _ in 0..20_000 {
            header.client(&headers, PEER.parse().unwrap(), |_| true);
        }
        let taken = computed().saturating_sub(begun);
        assert!(taken < Duration::from_secs(15), "{header:?}: {taken:?}");
    }
}

/// Pseudo-random bytes by xorshift; every other one is part of the grammar.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let known = b"for=\"\\,;: []%._0123456789abcdefFOR";
    let byte = |random: u64| {
        let [choice, index, ..] = random.to_be_bytes();
        if choice % 2 == 0 { index } else { known[usize::from(index) % known.len()] }
    };
    (0..length).map(|_| byte(next())).collect()
}

#[test]
fn a_million_random_bytes_do_no_harm() {
    let noise = noise(1_000_000);
    for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
        let (split, parse): (SplitLast, Parse) = match header {
            ForwardedHeader::Forwarded => (last_of_quoted_list, parameter_for),
            _ => (last_of_list, node),
        };
        // As one value, although HTTP forbids some of the bytes, and in pieces of every kind.
        walk([noise.as_slice()].into_iter(), PEER.parse().unwrap(), |_| true, split, parse);
        for size in [1, 7, 40, 128, 1025] {
            for piece in noise.chunks(size) {
                walk([piece].into_iter(), PEER.parse().unwrap(), |_| true, split, parse);
            }
        }
    }
}

proptest! {
    #[test]
    fn what_a_client_sends_first_does_not_change_what_a_proxy_appends(
        sent in proptest::collection::vec(any::<u8>(), 0..200),
        host in any::<u32>(),
    ) {
        let address = IpAddr::V4(host.into());
        let not_trusted = |_: IpAddr| false;
        let peer = PEER.parse().unwrap();
        let line = [&sent, format!(", {address}").as_bytes()].concat();
        let found = walk([line.as_slice()].into_iter(), peer, not_trusted, last_of_list, node);
        prop_assert_eq!(found, address);
        for appended in [format!(", for={address}"), format!(",for=\"{address}:80\";proto=https")] {
            let line = [&sent, appended.as_bytes()].concat();
            let found =
                walk([line.as_slice()].into_iter(), peer, not_trusted, last_of_quoted_list, parameter_for);
            prop_assert_eq!(found, address);
        }
    }
}
