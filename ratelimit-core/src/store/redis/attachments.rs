//! Attachments: leases, slots and turns, which go with a call besides its requests.
//!
//! Lanes and queues do not know what an attachment is. They send what it adds to a call, pass the reply to
//! it, and report when a connection is made or lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::denial_cache::DenialCache;
use super::key::KeyFormat;
use super::lease::{CallLeases, LeaseTarget, Leases};
use super::protocol::{LimitArg, Replies, Request, Unclaimed};
use super::slots::{CallSlots, Sender, SlotTable};
use super::topology::NodeId;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Clock;
use crate::store::ConnectionStatus;

/// Pause after a sweep that panicked.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(250);

/// What a request attaches to its call.
#[derive(Default)]
pub(super) enum Attachment {
    /// Nothing. The request may go over the lane of a worker.
    #[default]
    None,
    /// Nothing, but the request goes over the store's lane: it is no plain check, or this process may have
    /// leases or hold slots of its policies. Requests with state in the process, turns and commands go over
    /// one connection, in their order.
    Ordered,
    /// The limits whose leases learn from the answer.
    Leases(Box<[LeaseTarget]>),
    /// A message that reports slots. The request is that message, and nothing waits for its reply.
    Message,
    /// What gives the turn of the request back if nothing waits for the reply.
    Turn(Box<dyn Unclaimed>),
}

/// The leases and slots of a store.
#[derive(Clone)]
pub(super) struct Attachments {
    /// Units by which this process decides without the server.
    pub(super) leases: Arc<Leases>,
    slots: Arc<SlotTable>,
}

impl Attachments {
    /// Creates empty tables. `clock` counts while the machine is suspended.
    pub(super) fn new(clock: &Arc<dyn Clock>, is_cluster: bool, denials: &Arc<DenialCache>) -> Self {
        let leases = Leases::new(Arc::clone(clock), is_cluster, Arc::clone(denials));
        Self { leases: Arc::new(leases), slots: Arc::new(SlotTable::new(Arc::clone(clock))) }
    }

    /// Starts the sweepers. `sender` queues messages about slots, `send_commands` sends the give-backs that
    /// a sweep of leases leaves.
    pub(super) fn start(
        &self,
        runtime: &Runtime,
        sender: Sender,
        send_commands: impl Fn() + Send + Sync + 'static,
    ) {
        self.slots.set_sender(sender);
        runtime.spawn(sweep_forever(Arc::clone(&self.slots), |slots| &slots.has_caller, SlotTable::sweep));
        let sweep = move |leases: &Leases| {
            let pause = leases.sweep();
            send_commands();
            pause
        };
        runtime.spawn(sweep_forever(Arc::clone(&self.leases), |leases| &leases.has_count, sweep));
    }

    /// Adds the leases to the status.
    pub(super) fn report(&self, status: &mut ConnectionStatus) {
        status.leases = self.leases.status();
    }

    /// The attachment of a request for a group.
    pub(super) fn of_group(&self, group: &[Check<'_>], operation: Operation) -> Attachment {
        let targets = self.leases.targets(group, operation);
        if !targets.is_empty() {
            return Attachment::Leases(targets);
        }
        let may_have_state =
            |check: &Check<'_>| check.policy().is_concurrency() || check.policy().lease_us() > 0;
        let is_plain = operation == Operation::Check && !group.iter().any(may_have_state);
        if is_plain { Attachment::None } else { Attachment::Ordered }
    }

    /// A guard that travels with a command which removes the states of these checks on the server.
    pub(super) fn reset_on_drop(&self, checks: &[Check<'_>], keys: &KeyFormat) -> impl Send + use<> {
        (self.leases.reset_on_drop(checks), self.slots.report_again_on_drop(checks, keys))
    }

    /// Voids the leases of a node: its connection was made or lost, or it rejected a call because a hash
    /// slot has moved.
    pub(super) fn renew(&self, node: NodeId) {
        self.leases.nodes.renew(node.index());
    }

    /// Voids all leases before the first call on a new connection: its server may be another, or have lost
    /// its data.
    pub(super) fn renew_all(&self) {
        self.leases.nodes.renew_all();
    }

    /// Reports all slots again, over a new connection.
    pub(super) fn note_connected(&self) {
        self.slots.report_all_again();
    }

    /// Notes that a request with this attachment will not be sent.
    pub(super) fn note_not_sent(&self, attachment: &Attachment, request: &Request) {
        if let (Attachment::Message, Some(limit)) = (attachment, request.limits.first()) {
            // The sweeper queues another message.
            self.slots.take_message(&limit.key);
        }
    }

    /// Ends all leases, when the store is dropped. Returns the messages about slots that are still to be
    /// sent.
    pub(super) fn close(&self) -> Vec<LimitArg> {
        self.leases.close();
        self.slots.unreported()
    }
}

/// Sweeps a table while it has entries, and otherwise waits for one. A sweep calls the application's metrics
/// recorder. If that panics, only this sweep ends.
async fn sweep_forever<T>(
    table: Arc<T>,
    has_entry: fn(&T) -> &Notify,
    sweep: impl Fn(&T) -> Option<Duration>,
) {
    let sweep = || catch_unwind(AssertUnwindSafe(|| sweep(&table))).unwrap_or(Some(PAUSE_AFTER_PANIC));
    loop {
        has_entry(&table).notified().await;
        while let Some(pause) = sweep() {
            sleep(pause).await;
        }
    }
}

/// The attachments of one call.
pub(super) struct CallAttachments {
    /// `None` if no leases learn from the call.
    leases: Option<Box<CallLeases>>,
    /// The requests for leases, in the order of `leases`. The call has them after all others.
    lease_requests: Vec<LimitArg>,
    /// `None` if the call has no concurrency limit.
    slots: Option<Box<CallSlots>>,
    /// For each turn: the index of its request, and what gives the turn back.
    turns: Vec<(usize, Box<dyn Unclaimed>)>,
    /// Whether the call has a message that reports slots. Then it is sent even if no request waits for it.
    has_report: bool,
}

impl CallAttachments {
    pub(super) fn new() -> Self {
        Self { leases: None, lease_requests: Vec::new(), slots: None, turns: Vec::new(), has_report: false }
    }

    /// Adds the attachment of a request for `node`. `place` is the index of the request in the call, or
    /// `None` if nothing waits for the request. Returns whether the attachment needs the request in the call.
    pub(super) fn add(
        &mut self,
        all: &Attachments,
        node: Option<NodeId>,
        request: &Request,
        attachment: Attachment,
        place: Option<usize>,
    ) -> bool {
        match attachment {
            Attachment::None | Attachment::Ordered => false,
            Attachment::Leases(targets) => {
                let new = || Box::new(CallLeases::new(&all.leases, node.map(NodeId::index)));
                let leases = self.leases.get_or_insert_with(new);
                leases.add(targets, &request.limits, place, &mut self.lease_requests);
                false
            }
            Attachment::Turn(turn) => {
                self.turns.extend(place.map(|place| (place, turn)));
                false
            }
            Attachment::Message => {
                let key = request.limits.first().map(|limit| &limit.key);
                let has_report = key.is_some_and(|key| all.slots.take_message(key));
                self.has_report |= has_report;
                has_report
            }
        }
    }

    /// Takes the requests for leases, which the call has after all others.
    pub(super) fn lease_requests(&mut self) -> Vec<Request> {
        let leases = std::mem::take(&mut self.lease_requests).into_iter();
        leases.map(|limit| Request { operation: Operation::Check, limits: smallvec![limit] }).collect()
    }

    /// Adds the reports of slots to all requests of the call.
    pub(super) fn add_slots(&mut self, all: &Attachments, requests: &mut [&mut Request]) {
        self.slots = CallSlots::new(&all.slots, requests);
    }

    /// Whether the call is sent even if no request waits for it.
    pub(super) const fn need_no_request(&self) -> bool {
        self.has_report
    }

    /// Notes that the call goes over another connection, because the planned one rejected it.
    pub(super) fn reroute(&mut self) {
        if let Some(leases) = &mut self.leases {
            leases.reroute();
        }
    }

    /// Learns from the reply before the requests get their replies, so that later requests find the leases.
    /// `requests` is the number of requests before those for leases.
    pub(super) fn finish(&mut self, replies: &mut Replies, requests: usize) {
        if let Some(slots) = self.slots.take() {
            slots.finish(replies);
        }
        if let Some(mut leases) = self.leases.take() {
            leases.finish(replies, requests);
        }
        for (request, turn) in self.turns.drain(..) {
            replies.if_unclaimed(request, turn);
        }
    }
}
