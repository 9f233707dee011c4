//! The replay: lines of logs in, figures out.
//!
//! A store would read its own clock. Here the clock is that of the log, so this is the part of a store below
//! the clock: a table of states, `decide_with` and `refund_with`.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::time::Duration;

use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with};
use ratelimit_core::{Algorithm, Check, GroupOutcome, Policy, Timestamp};

use crate::census::Census;
use crate::limits::Fields;
use crate::line::Request;
use crate::picture::Seconds;

/// Key of the digests that stand for callers. A store has a secret one; the result of a replay should not be
/// random.
const DIGEST_KEY: [u8; 16] = *b"not a secret key";
/// Seconds of the windows whose numbers are printed beside those of the limit's own.
const WINDOWS: [u64; 5] = [1, 10, 60, 3_600, 86_400];

/// The limits, and all that is known about their requests so far.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) limits: Vec<(Policy, Fields)>,
    /// One for each limit.
    pub(crate) tallies: Vec<Tally>,
    states: HashMap<u128, State>,
    pub(crate) requests: u64,
    /// Instants of the first request and the last one.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
    /// Times that were earlier than the one before.
    pub(crate) late: u64,
    /// Lines that are no request, and the first three of them with what was expected.
    pub(crate) unreadable: u64,
    pub(crate) shown: Vec<String>,
}

/// What a limit decided.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    /// Requests whose line names no caller, which count under no limit.
    pub(crate) without_caller: u64,
    pub(crate) longest_wait: Duration,
    /// Denials of each caller.
    pub(crate) denials: HashMap<String, u64>,
    pub(crate) seconds: Seconds,
    /// For each window.
    pub(crate) censuses: Vec<Census>,
}

impl Replay {
    pub(crate) fn new(limits: Vec<(Policy, Fields)>) -> Self {
        let tallies = limits.iter().map(|(policy, _)| Tally::new(policy)).collect();
        Self { limits, tallies, ..Self::default() }
    }

    /// Replays the log with this name.
    pub(crate) fn read(&mut self, log: &str, lines: impl BufRead) -> io::Result<()> {
        for (number, line) in (1..).zip(lines.split(b'\n')) {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            match Request::parse(line.trim()) {
                Ok(request) => _ = self.request(&request),
                Err(expected) => {
                    self.unreadable += 1;
                    let found = format!("expected {expected}; found `{}`", shown(&line));
                    self.shown.push(format!("line {number} of {log}: {found}"));
                    self.shown.truncate(3);
                }
            }
        }
        Ok(())
    }

    /// Decides about a request under all limits that are for it: one group, as the attributes of a handler.
    /// `None` if there are none.
    pub(crate) fn request(&mut self, request: &Request) -> Option<GroupOutcome> {
        self.requests += 1;
        // Servers write a line when a request ends, so its time may be earlier than that of the line before.
        let (first, latest) = self.span.unwrap_or((request.at, request.at));
        let now = latest.max(request.at);
        self.span = Some((first, now));
        self.late += u64::from(now > request.at);
        let mut group = Vec::new();
        for (place, (policy, fields)) in self.limits.iter().enumerate() {
            match fields.caller(request) {
                _ if !fields.is_for(request) => {}
                Some(caller) => group.push((place, policy, caller)),
                None => self.tallies[place].without_caller += 1,
            }
        }
        if group.is_empty() {
            return None;
        }
        let checks = group.iter().map(|(_, policy, caller)| Check::new(policy, caller.as_bytes()));
        let checks: Vec<Check<'_>> = checks.collect();
        let outcome = decide_with(&checks, Operation::Check, now, &DIGEST_KEY, &mut self.states).outcome;
        for (((place, policy, caller), check), of_limit) in group.iter().zip(&checks).zip(outcome.outcomes())
        {
            let counts = self.limits[*place].1.count.includes(request.status);
            let reservation = outcome.reservation(&checks).filter(|_| !counts);
            if let Some(charge) = reservation.and_then(|mut charged| charged.take_limit(policy.name())) {
                refund_with(&charge, outcome.at(), &DIGEST_KEY, &mut self.states);
            }
            let tally = &mut self.tallies[*place];
            for census in &mut tally.censuses {
                census.add(check.digest(&DIGEST_KEY, now), now, counts);
            }
            tally.requests += 1;
            let second = tally.seconds.entry(now.as_micros() / 1_000_000).or_default();
            if outcome.is_allowed() {
                second.0 += 1;
            } else if !of_limit.is_allowed() {
                second.1 += 1;
                tally.denied += 1;
                tally.longest_wait = tally.longest_wait.max(of_limit.retry_after().unwrap_or_default());
                *tally.denials.entry(caller.to_string()).or_default() += 1;
            }
        }
        Some(outcome)
    }
}

impl Tally {
    fn new(policy: &Policy) -> Self {
        let mut windows = vec![policy.window()];
        // Another window of a bucket would be another rate.
        if policy.algorithm() != Algorithm::TokenBucket {
            windows.extend(WINDOWS.map(Duration::from_secs));
        }
        windows.sort_unstable();
        windows.dedup();
        // Without those that the sub-windows do not divide.
        let censuses = windows.into_iter().filter_map(|window| Census::new(policy, window).ok());
        Self { censuses: censuses.collect(), ..Self::default() }
    }
}

/// The begin of a text that a client may have chosen, without characters that would change a terminal.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_debug).collect()
}
