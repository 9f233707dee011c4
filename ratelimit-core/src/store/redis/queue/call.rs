//! A call: its command, and the channels for its replies.

use std::mem;

use redis::Value;
use smallvec::SmallVec;

use super::request::{QueuedRequest, ReplySender, Requests, send_reply};
use crate::store::redis::attachments::CallAttachments;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::error::CallError;
use crate::store::redis::protocol::{self, Batch, Replies, Request};
use crate::store::redis::shared::Shared;
use crate::store::redis::topology::{NodeId, range_of_slot};

/// A call about requests, or another command. It is in a box from its start, because its bytes are many.
pub(super) struct Call {
    pub(super) command: Command,
    /// Hash slot of the keys in a cluster.
    pub(super) hash_slot: u16,
    /// When the first of its requests was made.
    pub(super) made: Option<u64>,
    /// The channel for the reply to each request; `None` for a message that only reports slots. A command has
    /// at most one.
    requests: SmallVec<[Option<ReplySender>; 1]>,
    expected: Expected,
}

/// The reply that a call expects.
#[allow(clippy::large_enum_variant, reason = "in the box of the call")]
enum Expected {
    /// Replies to requests.
    Replies(Batch, CallAttachments),
    /// The end of a command, which drops the guard.
    End { _guard: Box<dyn Send>, is_refund: bool },
}

/// A decoded reply.
pub(super) enum Decoded {
    Replies(Replies),
    /// The end of a command. An error if a charge stays that was to be refunded.
    Ended(Result<(), CallError>),
}

impl Call {
    /// Encodes one call to `node` for all these requests, with their attachments. `None` if there is nothing
    /// to decide.
    pub(super) fn of_requests(
        mut queued: Requests,
        node: Option<NodeId>,
        shared: &Shared,
    ) -> Option<Box<Self>> {
        let (hash_slot, made) =
            queued.first().map_or((0, None), |request| (request.hash_slot, Some(request.since)));
        let (mut attachments, mut size) = (CallAttachments::new(), 0);
        queued.retain_mut(|queued| {
            let QueuedRequest { request, reply, attachment, .. } = queued;
            let place = reply.is_some().then_some(size);
            let is_needed = attachments.add(&shared.attachments, node, request, mem::take(attachment), place);
            let is_sent = place.is_some() || is_needed;
            size += usize::from(is_sent);
            is_sent
        });
        let mut leases = attachments.lease_requests();
        if queued.is_empty() && leases.is_empty() {
            return None;
        }
        let (command, batch) = {
            let of_requests = queued.iter_mut().map(|queued| &mut queued.request);
            let mut all: SmallVec<[&mut Request; 2]> = of_requests.chain(&mut leases).collect();
            attachments.add_slots(&shared.attachments, &mut all);
            shared.encoder.encode(&all)
        };
        let judged = queued.iter().filter(|queued| queued.reply.is_some()).count();
        shared.link.observer.sent(judged);
        let requests = queued.iter_mut().map(|queued| queued.reply.take()).collect();
        let expected = Expected::Replies(batch, attachments);
        Some(Box::new(Self { command, hash_slot, made, requests, expected }))
    }

    /// A command for keys of this hash slot, and the channel for its end.
    pub(super) fn of_command(
        GuardedCommand { command, guard }: GuardedCommand,
        hash_slot: u16,
        reply: Option<ReplySender>,
    ) -> Box<Self> {
        let requests = reply.map(Some).into_iter().collect();
        let is_refund = command.runs_script();
        let expected = Expected::End { _guard: guard, is_refund };
        Box::new(Self { command, hash_slot, made: None, requests, expected })
    }

    /// Slot range of the keys.
    pub(super) fn range(&self) -> usize {
        range_of_slot(self.hash_slot)
    }

    /// Whether the call is still of use: a request waits for it, or it is needed without requests.
    pub(super) fn is_wanted(&self) -> bool {
        let needs_no_request = match &self.expected {
            Expected::Replies(_, attachments) => attachments.need_no_request(),
            Expected::End { .. } => true,
        };
        needs_no_request || self.requests.iter().flatten().any(|reply| !reply.is_closed())
    }

    /// Notes that the call is sent over another connection, because the first one rejected it.
    pub(super) fn reroute(&mut self) {
        if let Expected::Replies(_, attachments) = &mut self.expected {
            attachments.reroute();
        }
    }

    /// Decodes a reply. An error if it does not have the shape that the call expects.
    pub(super) fn decode(&self, reply: Value) -> Result<Decoded, CallError> {
        match (&self.expected, reply) {
            (Expected::Replies(batch, _), reply) => {
                batch.decode(reply).map(Decoded::Replies).ok_or(CallError::Protocol(protocol::EXPECTED))
            }
            (Expected::End { is_refund: true, .. }, Value::Int(0)) => {
                Ok(Decoded::Ended(Err(CallError::TurnsNotDue)))
            }
            (Expected::End { .. }, Value::Int(_)) => Ok(Decoded::Ended(Ok(()))),
            (Expected::End { .. }, _) => Err(CallError::Protocol("a number as the reply to a command")),
        }
    }

    /// Lets attachments and guards take the end of the call, and then sends each request its reply.
    pub(super) fn finish(mut self: Box<Self>, result: Result<Decoded, CallError>) {
        let requests = mem::take(&mut self.requests);
        let end = match (&mut self.expected, result) {
            (Expected::Replies(_, attachments), Ok(Decoded::Replies(mut replies))) => {
                attachments.finish(&mut replies, requests.len());
                for (reply, request) in replies.replies.into_iter().zip(requests) {
                    send_reply(request, Ok(Some(reply)));
                }
                return;
            }
            (_, Ok(Decoded::Ended(end))) => end,
            // An error, since `decode` returns no replies to a command.
            (_, result) => result.and(Err(CallError::Protocol(protocol::EXPECTED))),
        };
        // First, so that the tasks that wait see what the attachments or the guard change.
        drop(self);
        for request in requests {
            send_reply(request, end.clone().map(|()| None));
        }
    }
}
