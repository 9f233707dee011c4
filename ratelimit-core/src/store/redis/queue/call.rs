//! A call: its command, and the requests that wait for its reply.

use std::mem;
use std::sync::Arc;

use redis::Value;
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::request::{QueuedRequest, ReplySender, send_reply};
use crate::algorithm::Operation;
use crate::store::Deadline;
use crate::store::redis::command::Command;
use crate::store::redis::error::CallError;
use crate::store::redis::lease::{CallLeases, GiveBackCall, Leases};
use crate::store::redis::link::{CallProgress, Link};
use crate::store::redis::protocol::{self, Batch, Encoder, LimitArg, Request};
use crate::store::redis::slots::{CallSlots, SlotTable};
use crate::store::redis::topology::range_of_slot;

/// Why a call certainly did not run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRun {
    /// Before it was written.
    ConnectionLost,
    UnknownScript,
    /// Another node of the cluster has its keys.
    Moved,
    /// The server's instant is in other calendar windows.
    OtherWindows,
}

/// A call about requests, or one that gives units back.
pub(super) struct Call {
    pub(super) command: Command,
    /// Slot range of the keys.
    pub(super) range: usize,
    pub(super) progress: Arc<CallProgress>,
    expected: Expected,
}

/// What is done with the reply.
enum Expected {
    Replies(Box<Replies>),
    /// The guard is dropped with the call.
    Nothing(#[allow(dead_code, reason = "for its drop")] Box<dyn Send>),
}

/// The replies to a batch of requests.
struct Replies {
    batch: Batch,
    requests: SmallVec<[RequestInFlight; 1]>,
    /// `None` if no answer of the call is of use for leases.
    leases: Option<Box<CallLeases>>,
    /// `None` if no limit of the call is one of slots.
    slots: Option<Box<CallSlots>>,
    /// Whether a message of the call only tells of slots. Then it is worth sending although no request waits.
    tells: bool,
}

/// A request whose call is in flight; without a channel once its deadline has passed, and for a message that only tells.
struct RequestInFlight {
    deadline: Deadline,
    reply: Option<ReplySender>,
}

impl Call {
    /// Encodes one call for all these requests, and behind them the leases that go with them, of the connection of `lane`.
    /// `None` if there is nothing to decide.
    pub(super) fn new(
        queued: Vec<QueuedRequest>,
        lane: Option<usize>,
        link: &Link,
        encoder: &Encoder,
        all_leases: &Arc<Leases>,
        all_slots: &Arc<SlotTable>,
    ) -> Option<Self> {
        let range = queued.first().map_or(0, |request| range_of_slot(request.slot));
        let mut to_encode = Vec::with_capacity(queued.len());
        let mut requests = SmallVec::<[RequestInFlight; 1]>::with_capacity(queued.len());
        let mut leases: Option<Box<CallLeases>> = None;
        let mut lease_requests = SmallVec::<[LimitArg; 1]>::new();
        let mut tells = false;
        for queued in queued {
            let tells_now = queued.told_limit().is_some_and(|limit| all_slots.take_message(&limit.key));
            let QueuedRequest { request, deadline, reply, leases: targets, .. } = queued;
            if !targets.is_empty() {
                let leases = leases.get_or_insert_with(|| Box::new(CallLeases::new(all_leases, lane)));
                let place = reply.is_some().then_some(to_encode.len());
                leases.add(targets, &request.limits, place, &mut lease_requests);
            }
            if reply.is_some() || tells_now {
                tells |= tells_now;
                to_encode.push(request);
                requests.push(RequestInFlight { deadline, reply });
            }
        }
        let lease_requests = lease_requests.into_iter();
        to_encode.extend(
            lease_requests.map(|limit| Request { operation: Operation::Check, limits: smallvec![limit] }),
        );
        if to_encode.is_empty() {
            return None;
        }
        link.calls.record_batch(requests.iter().filter(|request| request.reply.is_some()).count());
        let slots = CallSlots::new(all_slots, &mut to_encode);
        let (call, batch) = encoder.encode(to_encode);
        let expected = Expected::Replies(Box::new(Replies { batch, requests, leases, slots, tells }));
        Some(Self { command: Command::Run(call), range, progress: Arc::default(), expected })
    }

    pub(super) fn give_back(call: GiveBackCall, link: &Link) -> Self {
        let range = link.range(call.command.keys().first().map(String::as_str));
        let expected = Expected::Nothing(Box::new(call.guard));
        Self { command: call.command, range, progress: Arc::default(), expected }
    }

    /// Takes the command out, to be sent while the rest of the call waits for the reply.
    pub(super) fn take_command(&mut self) -> Command {
        mem::replace(&mut self.command, Command::Delete(SmallVec::new()))
    }

    fn requests(&mut self) -> &mut [RequestInFlight] {
        match &mut self.expected {
            Expected::Replies(expected) => &mut expected.requests,
            Expected::Nothing(_) => &mut [],
        }
    }

    /// Whether sending the call would not be in vain: a request waits for it, or it gives units back or tells of slots.
    pub(super) fn is_wanted(&mut self) -> bool {
        let needs_no_request = match &self.expected {
            Expected::Replies(expected) => expected.tells,
            Expected::Nothing(_) => true,
        };
        needs_no_request || self.next_deadline().is_some()
    }

    /// The next deadline of a request; `None` when all have passed.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        let open = self.requests().iter().filter(|request| request.reply.is_some());
        open.map(|request| request.deadline.instant()).min()
    }

    /// Takes the requests whose deadline has passed at `now`.
    pub(super) fn expire(&mut self, now: Instant) -> impl Iterator<Item = (ReplySender, Deadline)> {
        let late = self.requests().iter_mut().filter(move |request| request.deadline.instant() <= now);
        late.filter_map(|request| Some((request.reply.take()?, request.deadline)))
    }

    /// Whether the server's instant is outside of the calendar windows of the call, so that nothing was decided. Then the call has the
    /// windows of that instant, to be sent again.
    pub(super) fn aim_again(&mut self, reply: &Value) -> bool {
        let Expected::Replies(expected) = &self.expected else { return false };
        let Some(at) = expected.batch.outside(reply) else { return false };
        if let Command::Run(call) | Command::RunText(call) = &mut self.command {
            expected.batch.aim(call, at);
        }
        true
    }

    /// The call is sent over another connection than planned, because this one rejected it.
    pub(super) fn reroute(&mut self) {
        if let Expected::Replies(expected) = &mut self.expected
            && let Some(leases) = &mut expected.leases
        {
            leases.reroute();
        }
    }

    /// Stores the leases, and sends each request its reply.
    pub(super) fn finish(self, result: Result<Value, CallError>) {
        let Expected::Replies(expected) = self.expected else { return };
        let Replies { batch, requests, mut leases, slots, .. } = *expected;
        let decode = |value| batch.decode(value).ok_or(CallError::Protocol(protocol::EXPECTED));
        match result.and_then(decode) {
            Ok(mut replies) => {
                if let Some(slots) = slots {
                    slots.finish(&mut replies);
                }
                // Before the requests go on, so that the next ones find the lease.
                if let Some(leases) = &mut leases {
                    leases.finish(&replies, requests.len());
                }
                for (reply, request) in replies.replies.into_iter().zip(requests) {
                    send_reply(request.reply, Ok(reply));
                }
            }
            Err(error) => {
                for request in requests {
                    send_reply(request.reply, Err(error.clone()));
                }
            }
        }
    }
}
