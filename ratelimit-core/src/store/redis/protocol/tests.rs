//! Tests of arguments and replies.

use std::time::Duration;

use redis::Value;

use super::*;
use crate::algorithm::Operation;
use crate::algorithm::OwnEntry;
use crate::check::{Check, in_windows};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::{Algorithm, Mode, Policy};
use crate::store::deadline::now;
use crate::store::redis::key::KeyFormat;

const MINUTE: Duration = Duration::from_secs(60);

fn encoder(now: u64) -> Encoder {
    Encoder::new(KeyFormat::new("rl", "").unwrap(), Box::new(move || Some(now)))
}

fn request(limits: &[(&Policy, &str, u64)], operation: Operation) -> Request {
    let checks = limits.iter().map(|&(policy, caller, cost)| Check::new(policy, caller).with_cost(cost));
    request_of(&checks.collect::<Vec<_>>(), operation)
}

fn request_of(group: &[Check<'_>], operation: Operation) -> Request {
    let key_format = encoder(0).key_format;
    let limits = group.iter().map(|check| LimitArg::new(key_format.key(check), check));
    Request { operation, limits: limits.collect() }
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks(8).map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// Encodes two windows.
fn windows(start: u64, current: u64, oldest: u64) -> Vec<u8> {
    let (current, oldest) = (current.to_le_bytes(), oldest.to_le_bytes());
    [b"c", &start.to_le_bytes()[..7], &current[..5], &oldest[..5]].concat()
}

fn reply(found: &[&[u8]], at: f64, verdicts: impl AsRef<[u8]>) -> Value {
    Value::BulkString([&at.to_le_bytes()[..], &found.concat(), verdicts.as_ref()].concat())
}

/// Decodes a reply to one request about one limit of 10 in a minute.
fn decode(reply: Value) -> Result<GroupOutcome, StoreError> {
    let policy = Policy::new("user-api", 10, MINUTE);
    let (_, batch) = encoder(0).encode(&[request(&[(&policy, "a", 1)], Operation::Check)]);
    let decoded = batch.decode(reply).and_then(|replies| replies.replies.into_iter().next());
    decoded.ok_or(StoreError::Protocol { expected: EXPECTED })?.claim(&[Check::new(&policy, "a")])
}

#[test]
fn keys_and_policies_that_occur_again_are_sent_once() {
    let (minute, second) = (Policy::new("m", 10, MINUTE), Policy::new("s", 5, Duration::from_secs(1)));
    for rounds in [1u16, 2, 40] {
        let requests = (0..rounds).flat_map(|_| {
            [
                request(&[(&minute, "a", 1), (&second, "b", 3)], Operation::Check),
                request(&[(&minute, "c", u64::MAX)], Operation::Check),
                request(&[(&minute, "d", 1)], Operation::Peek),
                request(&[(&minute, "e", 2)], Operation::Check),
            ]
        });
        let (call, _) = encoder(7).encode(&requests.collect::<Vec<_>>());
        assert_eq!(call.keys().len(), 5);
        assert!(
            call.keys()
                .iter()
                .zip(["m", "s", "m", "m", "m"])
                .all(|(key, policy)| { key.starts_with(format!("rl1:{policy}:").as_bytes()) })
        );
        // Keys of groups and peeks have no sum.
        let all = 1_000_000_000_001.0 * f64::from(rounds);
        let head = [
            [7.0, 2.0].as_slice(),
            &[2.0, 10.0, 6e7, 1.0],
            &[2.0, 5.0, 1e6, 1.0],
            &[1.0, -1.0, 2.0, -1.0, 1.0, all, 1.0, -1.0, 1.0, 2.0 * f64::from(rounds)],
        ];
        assert_eq!(doubles(call.arguments()[0]), head.concat());
        let round = [
            [2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0].as_slice(),
            &[1.0, 3.0, 1.0, 1_000_000_000_001.0],
            &[-1.0, 4.0, 1.0, 1.0],
            &[1.0, 5.0, 1.0, 2.0],
        ];
        assert_eq!(doubles(call.arguments()[1]), round.concat().repeat(rounds.into()));
    }
}

#[test]
fn the_servers_clock_differs_from_any_instant() {
    let policy = Policy::new("k", 10, MINUTE);
    let encoder = |now| Encoder::new(KeyFormat::new("rl", "").unwrap(), Box::new(move || now));
    for (now, sent) in [(None, -1.0), (Some(0), 0.0), (Some(7), 7.0)] {
        let (call, _) = encoder(now).encode(&[request(&[(&policy, "a", 1)], Operation::Check)]);
        let refund = RefundArgs::new(now).into_bytes();
        for bytes in [call.arguments()[0], &refund] {
            assert_eq!(doubles(bytes)[..1], [sent], "{now:?}");
        }
    }
}

#[test]
fn a_log_weighs_more_than_a_state_of_a_few_bytes() {
    let weight = |algorithm| {
        PolicyArg::new(&Check::new(&Policy::builder("k").algorithm(algorithm).build(), "a")).weight()
    };
    for &algorithm in Algorithm::ALL {
        let expected = if algorithm == Algorithm::SlidingWindowLog { 8 } else { 1 };
        assert_eq!(weight(algorithm), expected, "{algorithm}");
    }
    assert_eq!(weight(Algorithm::Concurrency), 8, "an entry for each process");
}

/// `concurrency.lua` reads that argument. Without a sum, `check.lua` does not judge slots itself.
#[test]
fn reported_slots_are_a_fourth_argument_and_their_keys_have_no_sum() {
    let (slots, rate) = (Policy::concurrency("slots", 3), Policy::new("m", 10, MINUTE));
    let mut requests =
        vec![request(&[(&slots, "a", 1)], Operation::Check), request(&[(&rate, "a", 1)], Operation::Check)];
    // The server keeps 48 bits of reported numbers.
    let many = 1 << 50;
    let reported = OwnEntry { process: 7, granted: many + 5, freed: many + 4 };
    requests[0].limits[0].own = Some(Box::new(reported));
    let (call, batch) = encoder(7).encode(&requests);
    assert_eq!(doubles(call.arguments()[0])[10..], [1.0, -1.0, 2.0, 1.0]);
    assert_eq!(doubles(call.arguments()[2]), [0.0, 0.0], "blocks");
    assert_eq!(doubles(call.arguments()[3]), [7.0, 5.0, 4.0, 0.0, 0.0]);
    // Another process holds one slot. A slot that this process reports as freed counts no more.
    let entry = |process: u64, granted: u64, freed: u64| {
        let numbers = [(60_000_000u64, 7), (process, 6), (granted, 6), (freed, 6)];
        numbers.iter().flat_map(|(number, size)| number.to_le_bytes()[..*size].to_vec()).collect::<Vec<u8>>()
    };
    let found = [&b"n\x02\0"[..], &entry(9, 2, 1), &entry(7, 5, 3)].concat();
    let mut replies = batch.decode(reply(&[&found, b"."], 59_000_000.0, "11")).unwrap();
    assert_eq!((replies.charged(0, 0, 1), replies.granted_there(0, 0)), (1, Some(many + 6)));
    let outcome = replies.replies.remove(0).claim(&[Check::new(&slots, "a")]).unwrap();
    assert_eq!((outcome.is_allowed(), outcome.outcomes()[0].remaining()), (true, 0));
}

#[test]
fn a_key_under_two_limits_has_no_sum() {
    let (ten, twenty) = (Policy::new("k", 10, MINUTE), Policy::new("k", 20, MINUTE));
    let requests = [&ten, &twenty].map(|policy| request(&[(policy, "a", 1)], Operation::Check));
    let (call, _) = encoder(7).encode(&requests);
    assert_eq!(call.keys().len(), 1);
    assert!(doubles(call.arguments()[0]).ends_with(&[1.0, -1.0]));
}

#[test]
fn each_reply_accounts_for_the_requests_before_it() {
    let policy = Policy::new("k", 10, MINUTE);
    let check = |caller, cost, operation| request(&[(&policy, caller, cost)], operation);
    let requests = vec![
        check("a", 3, Operation::Check),
        check("b", 1, Operation::Check),
        check("a", 1, Operation::Peek),
        check("a", 9, Operation::Check),
        request(&[(&policy, "b", 1), (&policy, "a", 2), (&policy, "a", 2)], Operation::Check),
        check("a", 1, Operation::Check),
    ];
    let (_, batch) = encoder(0).encode(&requests);
    let replies = batch.decode(reply(&[&windows(60_000_000, 1, 0), b"."], 90_000_000.0, "111011")).unwrap();
    let report = |mut reply: Reply, group: &[(&str, u64)]| {
        let group: Vec<_> =
            group.iter().map(|(caller, cost)| Check::new(&policy, *caller).with_cost(*cost)).collect();
        let outcome = reply.claim(&group).unwrap();
        assert_eq!(outcome.at(), Timestamp::from_micros(90_000_000));
        outcome.outcomes().iter().map(|one| (one.is_allowed(), one.remaining())).collect::<Vec<_>>()
    };
    let mut replies = replies.replies.into_iter();
    let mut next = |group: &[(&str, u64)]| report(replies.next().unwrap(), group);
    assert_eq!(next(&[("a", 3)]), [(true, 6)]);
    assert_eq!(next(&[("b", 1)]), [(true, 9)]);
    assert_eq!(next(&[("a", 1)]), [(true, 6)]);
    assert_eq!(next(&[("a", 9)]), [(false, 6)]);
    assert_eq!(next(&[("b", 1), ("a", 2), ("a", 2)]), [(true, 8), (true, 2), (true, 2)]);
    assert_eq!(next(&[("a", 1)]), [(true, 1)]);
}

#[test]
fn a_reply_of_any_other_shape_is_a_protocol_error() {
    let full = windows(60_000_000, 10, 0);
    assert!(decode(reply(&[b"."], 1.0, "")).unwrap().is_allowed());
    assert!(decode(reply(&[b"."], 1.0, "1")).unwrap().is_allowed());
    assert!(!decode(reply(&[&full], 60_000_000.0, "0")).unwrap().is_allowed());
    let bad = [
        Value::Nil,
        Value::Int(1),
        Value::Array(vec![]),
        Value::BulkString(vec![]),
        reply(&[], 1.0, ""),
        reply(&[&full[..17]], 1.0, ""),
        reply(&[b"."], -1.0, ""),
        reply(&[b"."], 1.5, ""),
        reply(&[b"."], f64::NAN, ""),
        reply(&[b"."], 1e300, ""),
        reply(&[b"."], 1.0, "11"),
        reply(&[b"."], 1.0, "x"),
        // Verdicts that do not follow from the states.
        reply(&[b"."], 1.0, "0"),
        reply(&[b"."], 1.0, "-"),
        reply(&[&full], 60_000_000.0, ""),
    ];
    for value in bad {
        let error = decode(value.clone()).unwrap_err();
        assert!(matches!(error, StoreError::Protocol { .. }), "{value:?}: {error}");
    }
}

#[test]
fn impossible_verdicts_are_an_error_and_not_a_panic() {
    let year = Duration::from_secs(366 * 86_400);
    for &algorithm in Algorithm::ALL {
        let policy = Policy::builder("k").algorithm(algorithm).max(1).window(year).build();
        let check = |cost| request(&[(&policy, "a", cost)], Operation::Check);
        let (_, batch) = encoder(0).encode(&[check(u64::MAX), check(u64::MAX), check(1)]);
        let mut last = batch.decode(reply(&[b"."], 1.79e15, "111")).unwrap().replies.pop().unwrap();
        let error = last.claim(&[Check::new(&policy, "a")]).unwrap_err();
        assert!(matches!(error, StoreError::Protocol { .. }), "{algorithm}: {error}");
    }
}

#[test]
fn blocks_are_an_argument_of_their_own_where_a_policy_has_one() {
    let open = Policy::new("open", 10, MINUTE);
    let blocks = Policy::builder("blocks").max(10).block(Duration::from_secs(90)).build();
    let arguments = |limits: &[_], operation| {
        let call = encoder(7).encode(&[request(limits, operation)]).0;
        call.arguments().iter().map(|argument| argument.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(arguments(&[(&open, "a", 1)], Operation::Check).len(), 2);
    let both = arguments(&[(&open, "a", 1), (&blocks, "a", 1)], Operation::Check);
    assert_eq!(doubles(&both[2]), [0.0, 90_000_000.0]);
    let alone = arguments(&[(&blocks, "a", 1)], Operation::Check);
    assert_eq!(alone[..2], arguments(&[(&open, "a", 1)], Operation::Check)[..], "apart from the key");
    let judged = arguments(&[(&blocks, "a", 1)], Operation::Judge);
    assert_eq!(doubles(&judged[1])[..1], [257.0]);
}

/// A verdict with the effect on one limit: a tag and a number.
fn with_detail(before: &str, tag: u8, number: u64, after: &str) -> Vec<u8> {
    [before.as_bytes(), &[tag], &number.to_le_bytes()[..7], after.as_bytes()].concat()
}

#[test]
fn requests_after_one_that_begins_a_block_are_denied_by_it() {
    let policy = Policy::builder("k").max(2).window(MINUTE).block(2 * MINUTE).build();
    let check = || request(&[(&policy, "a", 1)], Operation::Check);
    let group = [Check::new(&policy, "a")];
    let (now, until) = (61_000_000u64, 181_000_000);
    let found = windows(60_000_000, 1, 0);
    let outcomes = |verdicts: &[u8]| -> Option<Vec<Result<Option<Duration>, StoreError>>> {
        let (_, batch) = encoder(0).encode(&[check(), check(), check()]);
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let replies = batch.decode(reply(&[&found], now as f64, verdicts))?;
        let outcome = |mut reply: Reply| reply.claim(&group).map(|outcome| outcome.retry_after());
        Some(replies.replies.into_iter().map(outcome).collect())
    };
    let waits = outcomes(&with_detail("1+0", b'b', until, "0")).unwrap();
    let waits: Vec<_> = waits.into_iter().map(Result::unwrap).collect();
    assert_eq!(waits, [None, Some(2 * MINUTE), Some(2 * MINUTE)]);
    // Details that do not follow from the states are an error.
    let is_wrong = |verdicts: &[u8]| outcomes(verdicts).unwrap().remove(1).is_err();
    assert!(is_wrong(b"100"), "a block that did not begin");
    assert!(is_wrong(&with_detail("1+0", b'b', until + 1, "0")), "a block of another length");
    assert!(is_wrong(&with_detail("1+0", b'c', 1, "0")), "a charge of a denied request");
    assert!(outcomes(&with_detail("1+0", b'x', until, "0")).is_none(), "an unknown effect");
    assert!(outcomes(b"1+0").is_none() && outcomes(b"1+").is_none(), "cut short");
    assert!(outcomes(&with_detail("1+0", b'b', until, "00")).is_none(), "too long");
}

#[test]
fn a_lease_of_other_units_than_were_requested_is_a_protocol_error() {
    let policy = Policy::new("k", 10, MINUTE);
    let lease = || request(&[(&policy, "a", 6)], Operation::Check);
    // After a request of one unit nine are left, and then three.
    let verdict = |verdicts: &[u8], lease_number: usize| {
        let (_, batch) =
            encoder(0).encode(&[request(&[(&policy, "a", 1)], Operation::Check), lease(), lease()]);
        batch
            .decode(reply(&[b"."], 1.0, verdicts))
            .and_then(|replies| replies.verdict(lease_number, &Check::new(&policy, "a").with_cost(6)))
    };
    assert_eq!((verdict(b"110", 1), verdict(b"110", 2)), (Some(true), Some(false)));
    assert_eq!(verdict(&with_detail("1+1", b'c', 6, "0"), 1), Some(true));
    assert_eq!(verdict(&with_detail("1+1", b'c', 7, "0"), 1), None, "more units than were requested");
    assert_eq!(verdict(&with_detail("1+1", b'c', 5, "0"), 1), None, "fewer");
    assert_eq!(verdict(&with_detail("11+0", b'c', 3, ""), 2), None, "units of a lease that is denied");
    assert_eq!(verdict(b"111", 2), None, "a lease that does not fit is granted");
    assert_eq!(verdict(b"100", 1), None, "one that fits is denied");
    assert_eq!(verdict(b"1101", 1), None, "a verdict that was not requested");
}

#[test]
fn the_error_of_a_corrupt_state_names_the_policy() {
    let other = [b"f", &windows(1, 1, 1)[1..]].concat();
    for found in [&other[..], b"!"] {
        for verdict in ["", "-"] {
            let error = decode(reply(&[found], 1.0, verdict)).unwrap_err();
            assert!(matches!(error, StoreError::CorruptState { policy } if policy == "user-api"));
        }
    }
}

/// In a group a shadow limit whose state is corrupt counts as new.
#[test]
fn a_corrupt_state_of_a_shadow_limit_alone_is_an_error() {
    let policy = Policy::builder("shadow").max(10).window(MINUTE).mode(Mode::Shadow).build();
    let decoded = |limits: &[(&Policy, &str, u64)]| {
        let checks: Vec<_> =
            limits.iter().map(|&(policy, caller, cost)| Check::new(policy, caller).with_cost(cost)).collect();
        let (_, batch) = encoder(0).encode(&[request(limits, Operation::Check)]);
        let found = vec![&b"!"[..]; batch.keys.len()];
        let replies = batch.decode(reply(&found, 1.0, "")).unwrap();
        replies.replies.into_iter().next().unwrap().claim(&checks)
    };
    let alone = decoded(&[(&policy, "a", 1)]).unwrap_err();
    assert!(matches!(alone, StoreError::CorruptState { .. }), "{alone}");
    assert!(decoded(&[(&policy, "a", 1), (&policy, "b", 1)]).unwrap().is_allowed());
}

/// By these lengths `check.lua` recognises a call in which the numbers of the first key stand for all, and a
/// call in which every request has a key of its own.
#[test]
fn the_numbers_of_keys_begin_at_byte_49_and_take_16_bytes_and_a_request_of_one_limit_takes_32() {
    let policy = Policy::new("m", 10, MINUTE);
    let one = |caller| request(&[(&policy, caller, 1)], Operation::Check);
    let (call, _) = encoder(7).encode(&[one("a"), one("b"), one("c")]);
    let [head, body] = &call.arguments()[..] else { panic!("{} arguments", call.arguments().len()) };
    assert_eq!(head.len(), 48 + 3 * 16);
    assert_eq!(head[48..head.len() - 16], head[64..], "the same for all keys");
    assert_eq!(body.len(), 32 * 3);
    let different = vec![one("a"), request(&[(&policy, "b", 2)], Operation::Check), one("c")];
    let (call, _) = encoder(7).encode(&different);
    let head = &call.arguments()[0];
    assert_ne!(head[48..head.len() - 16], head[64..], "another cost");
    let (call, _) = encoder(7).encode(&[one("a"), one("a")]);
    assert_eq!((call.keys().len(), call.arguments()[1].len()), (1, 64), "two requests of one key");
    let (call, _) = encoder(7).encode(&[request(&[], Operation::Check)]);
    assert_eq!((call.keys().len(), call.arguments()[0].len()), (0, 16), "a call without keys");
}

#[cfg(feature = "calendar")]
#[test]
#[allow(clippy::cast_precision_loss, reason = "below 2^53")]
fn a_window_of_a_calendar_has_a_key_and_its_first_instant_is_the_shape() {
    use crate::policy::Calendar;

    let monthly = Policy::builder("m").calendar(Calendar::month(1)).max(7).build();
    // 21 September 2026 in the afternoon, and the first of the month.
    let (at, first) = (1_790_000_000_000_000, 1_788_220_800_000_000_u64);
    let in_september = |policy: &Policy, now: u64| {
        let group = [Check::new(policy, "a")];
        let group = in_windows(&group, Some(Timestamp::from_micros(at)));
        encoder(now).encode(&[request_of(&group, Operation::Check)]).0
    };
    let call = in_september(&monthly, at + 86_400_000_000 * 30);
    let longest = 31 * 86_400_000_000 + 3 * 3_600_000_000_u64;
    assert_eq!(doubles(call.arguments()[0])[2..6], [1.0, 7.0, longest as f64, first as f64]);
    let moving = Policy::builder("m").calendar(Calendar::month(1).clamped()).max(7).build();
    let kept = in_september(&moving, at);
    assert_eq!(doubles(kept.arguments()[0])[4..5], [2.0 * longest as f64], "by any day");
    let key = String::from_utf8(call.keys().first().unwrap().to_vec()).unwrap();
    assert!(key.starts_with("rl1:m:fM.681:{") && key.ends_with('}'), "{key}");
}

#[test]
fn the_time_of_the_server_is_what_it_said_last() {
    let real = Encoder::new(KeyFormat::new("rl", "").unwrap(), Box::new(|| None));
    for said in [0, 1_790_000_000_000_000, u64::MAX / 2, 7] {
        real.note_server_time(said, (now(), now()));
        assert!((said..said + 60_000_000).contains(&real.server_time()), "{said}");
    }
    assert_eq!(encoder(7).server_time(), 7, "the clock of a test");
}
