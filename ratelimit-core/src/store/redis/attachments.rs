//! Attachments: what goes with a call besides its requests, which are leases, slots and turns.
//!
//! Lanes and queues do not know what an attachment is. They send what it adds to a call, pass the reply to
//! it, and report when a connection is made or lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
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
    /// Nothing: it may go over the lane of a worker.
    #[default]
    None,
    /// Nothing. But this process may hold leases or slots of its policies, or it is no plain check. All of
    /// these go over one connection in their order, as turns and commands do.
    Ordered,
    /// Limits whose answers are of use for leases.
    Leases(Box<[LeaseTarget]>),
    /// It only tells of slots.
    Message,
    /// A turn, and what gives it back if nothing waits for the reply.
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
    /// `clock` counts while the machine is suspended.
    pub(super) fn new(
        clock: &Arc<dyn Clock>,
        default_lease_us: u64,
        is_cluster: bool,
        denials: &Arc<DenialCache>,
    ) -> Self {
        let leases = Leases::new(Arc::clone(clock), default_lease_us, is_cluster, Arc::clone(denials));
        Self { leases: Arc::new(leases), slots: Arc::new(SlotTable::new(Arc::clone(clock))) }
    }

    /// Lets attachments send messages of their own, and the commands that wait.
    pub(super) fn start(
        &self,
        runtime: &Runtime,
        sender: Sender,
        send_commands: impl Fn() + Send + Sync + 'static,
    ) {
        self.slots.set_sender(sender);
        runtime.spawn(sweep_forever(Arc::clone(&self.slots), |slots| &slots.has_entry, SlotTable::sweep));
        let sweep = move |leases: &Leases| {
            let pause = leases.sweep();
            send_commands();
            pause
        };
        runtime.spawn(sweep_forever(Arc::clone(&self.leases), |leases| &leases.has_count, sweep));
    }

    /// Adds what is held to the status.
    pub(super) fn report(&self, status: &mut ConnectionStatus) {
        status.leases = self.leases.status();
    }

    /// The attachment of a group that is about to be queued.
    pub(super) fn of_group(&self, group: &[Check<'_>], operation: Operation) -> Attachment {
        let targets = self.leases.targets(group, operation);
        if !targets.is_empty() {
            return Attachment::Leases(targets);
        }
        let may_hold =
            |check: &Check<'_>| check.policy().is_concurrency() || self.leases.may_lease(check.policy());
        let is_plain = operation == Operation::Check && !group.iter().any(may_hold);
        if is_plain { Attachment::None } else { Attachment::Ordered }
    }

    /// A guard for a command that is about to remove the states of these checks.
    pub(super) fn reset_on_drop(&self, checks: &[Check<'_>], keys: &KeyFormat) -> impl Send + use<> {
        (self.leases.reset_on_drop(checks), self.slots.report_again_on_drop(checks, keys))
    }

    /// Voids the leases of a node: there is a new connection to it, or none, or it has rejected a call
    /// because a hash slot has moved.
    pub(super) fn renew(&self, node: NodeId) {
        self.leases.nodes.renew(node.index());
    }

    /// Voids all leases before the first call on a new connection: its server may be another, or have lost
    /// its data.
    pub(super) fn renew_all(&self) {
        self.leases.nodes.renew_all();
    }

    /// A new connection serves: tells all slots again.
    pub(super) fn note_connected(&self) {
        self.slots.report_all_again();
    }

    /// A request of this attachment will not be sent.
    pub(super) fn note_not_sent(&self, attachment: &Attachment, request: &Request) {
        if let (Attachment::Message, Some(limit)) = (attachment, request.limits.first()) {
            // The sweeper tells of it again.
            self.slots.take_message(&limit.key);
        }
    }

    /// Ends what is held, when the store is dropped. Returns what slots have to tell then.
    pub(super) fn close(&self) -> Vec<LimitArg> {
        self.leases.close();
        self.slots.unreported()
    }
}

/// Sweeps as long as there is something to sweep, and waits for the next. A sweep calls the application's
/// metrics recorder, whose panic ends one sweep.
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
    /// `None` if no answer of the call is of use for leases.
    leases: Option<Box<CallLeases>>,
    /// Behind the requests, in the order of `leases`.
    lease_requests: SmallVec<[LimitArg; 1]>,
    /// `None` if no limit of the call is one of slots.
    slots: Option<Box<CallSlots>>,
    /// What gives turns back, and the indices of their requests.
    turns: Vec<(usize, Box<dyn Unclaimed>)>,
    /// Whether a message of the call only tells of slots. Then it is worth sending although no request waits.
    has_report: bool,
}

impl CallAttachments {
    pub(super) fn new() -> Self {
        Self {
            leases: None,
            lease_requests: SmallVec::new(),
            slots: None,
            turns: Vec::new(),
            has_report: false,
        }
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

    /// Takes the requests for leases, which go behind all others.
    pub(super) fn lease_requests(&mut self) -> SmallVec<[Request; 1]> {
        let leases = std::mem::take(&mut self.lease_requests).into_iter();
        leases.map(|limit| Request { operation: Operation::Check, limits: smallvec![limit] }).collect()
    }

    /// Adds to all requests of the call what the process tells of its slots.
    pub(super) fn add_slots(&mut self, all: &Attachments, requests: &mut [&mut Request]) {
        self.slots = CallSlots::new(&all.slots, requests);
    }

    /// Whether the call is worth sending although no request waits for it.
    pub(super) const fn need_no_request(&self) -> bool {
        self.has_report
    }

    /// The call is sent over another connection than planned, because this one rejected it.
    pub(super) fn reroute(&mut self) {
        if let Some(leases) = &mut self.leases {
            leases.reroute();
        }
    }

    /// Takes what the reply brings, before the requests go on, so that the next ones find it. `requests` is
    /// their number.
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
