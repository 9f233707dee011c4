//! Calls in flight, from their write to their replies. A call that did not run is sent again, by the task
//! that has it.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{ErrorKind, RedisError, RedisResult, Value};
use smallvec::SmallVec;
use tokio::time::sleep;

use super::call::{Call, Decoded};
use super::lane::{Calls, Lane};
use crate::store::Deadline;
use crate::store::deadline::{now, since};
use crate::store::redis::connections::Connection;
use crate::store::redis::error::{CallError, is_lost};
use crate::store::redis::link::is_redirect;
use crate::store::redis::timeouts::reply_by;
use crate::store::redis::topology::{NodeId, no_node};

/// First and longest pause while a hash slot is between two nodes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(8));

/// What happens to a call after a reply.
pub(super) enum Next {
    Ended,
    /// The call did not run, and is sent again over the same connection.
    Again(Box<Call>),
    /// The call did not run: another node, or a later moment, may serve it.
    Moved(Box<Call>, Redirect),
}

/// The reply of a node that does not serve a call.
pub(super) struct Redirect {
    from: NodeId,
    error: RedisError,
}

/// Sends calls in one write over one connection, and sends each request its reply. Calls that are sent again
/// go over the same connection, so that later calls do not overtake them.
pub(super) async fn carry(lane: &Arc<Lane>, connection: Option<Connection>, mut calls: Calls) {
    let Some(connection) = connection else {
        return Box::pin(find(lane, calls.into_iter().map(|call| (call, None)).collect())).await;
    };
    let link = &lane.shared.link;
    let mut moved = Vec::new();
    while !calls.is_empty() {
        let commands = calls.iter().map(|call| call.command.cmd()).collect();
        let (sent, made) = (now(), calls.iter().filter_map(|call| call.made).min());
        let mut deadline = Deadline::of_call(sent, made, link.deadline());
        // Pinned here: by value, its 1.4 KB would be in the future of the flush twice.
        let in_time = reply_by(&mut deadline, pin!(connection.server.send_calls(commands))).await;
        let Some(replies) = in_time else {
            lane.end_silent(&connection, calls);
            break;
        };
        if let Some(Err(error)) = replies.first()
            && is_lost(error)
        {
            lane.end_lost(&connection, calls, error);
            break;
        }
        let times = (sent, now());
        if replies.iter().any(Result::is_ok) {
            link.observer.replied(Duration::from_micros(times.1.saturating_sub(sent)));
        }
        for (call, reply) in mem::take(&mut calls).into_iter().zip(replies) {
            match lane.take_reply(&connection, call, reply, times) {
                Next::Ended => {}
                Next::Again(call) => calls.push(call),
                Next::Moved(call, redirect) => moved.push((call, Some(redirect))),
            }
        }
    }
    if !moved.is_empty() {
        Box::pin(find(lane, moved)).await;
    }
}

/// Sends each call to the node of a cluster that has its keys, over the store's connections. These are calls
/// that a reply redirects, and calls to a node without a connection at the moment.
async fn find(lane: &Arc<Lane>, calls: Vec<(Box<Call>, Option<Redirect>)>) {
    let (lane, link) = (lane.of_store.as_ref().unwrap_or(lane), &lane.shared.link);
    let followed = join_all(calls.into_iter().map(|(call, redirect)| follow(lane, call, redirect))).await;
    let unreached: Calls = followed.into_iter().flatten().collect();
    for range in ranges_of(&unreached) {
        link.record_timeout(range, (link.present_generation(), None));
    }
    unreached.into_iter().for_each(|call| call.finish(Err(CallError::Timeout(link.deadline()))));
}

/// Follows redirects for half of the deadline. Returns a call that reached no node within the deadline.
async fn follow(lane: &Arc<Lane>, mut call: Box<Call>, redirect: Option<Redirect>) -> Option<Box<Call>> {
    let link = &lane.shared.link;
    let (mut importing, mut pause) = (redirect.and_then(|redirect| lane.learn(&call, &redirect)), PAUSES.0);
    let sent = now();
    let mut deadline = Deadline::of_call(sent, None, link.deadline());
    call.reroute();
    loop {
        let target = importing.take();
        let reached = async {
            let node = target.or_else(|| link.owner(call.hash_slot));
            let node = node.ok_or_else(|| no_node("no node is known to have the hash slot of the key"))?;
            lane.connections.reach(node).await
        };
        let connection = match reply_by(&mut deadline, reached).await {
            Some(Ok(connection)) => connection,
            Some(Err(error)) => {
                let error = link.record_error(error, (link.present_generation(), None), call.range());
                call.finish(Err(error));
                return None;
            }
            None => return Some(call),
        };
        let command = call.command.cmd();
        let replied = async {
            match target {
                Some(_) => connection.server.send_asking(command).await,
                None => connection.server.send(command).await,
            }
        };
        let Some(reply) = reply_by(&mut deadline, replied).await else {
            lane.end_silent(&connection, Calls::from_iter([call]));
            return None;
        };
        match lane.take_reply(&connection, call, reply, (sent, now())) {
            Next::Ended => return None,
            Next::Again(again) => call = again,
            Next::Moved(moved, redirect) => {
                if since(sent) >= link.deadline() / 2 {
                    let error = link.record_error(redirect.error, connection.id.known(), moved.range());
                    moved.finish(Err(error));
                    return None;
                }
                call = moved;
                importing = lane.learn(&call, &redirect);
                sleep(pause).await;
                pause = (2 * pause).min(PAUSES.1);
            }
        }
    }
}

impl Lane {
    /// Handles the reply to a call that was sent and answered at these times. A call is sent again only if it
    /// is still of use: otherwise it would charge requests that no task waits for.
    pub(super) fn take_reply(
        self: &Arc<Self>,
        connection: &Connection,
        call: Box<Call>,
        reply: RedisResult<Value>,
        times: (u64, u64),
    ) -> Next {
        match self.next(connection, call, reply, times) {
            Next::Again(call) | Next::Moved(call, _) if !call.is_wanted() => {
                call.finish(Err(CallError::Unavailable));
                Next::Ended
            }
            next => next,
        }
    }

    /// The same, whether the call is still of use or not. If the reply does not fit the call, the connection
    /// is given up.
    fn next(
        self: &Arc<Self>,
        connection: &Connection,
        mut call: Box<Call>,
        reply: RedisResult<Value>,
        times: (u64, u64),
    ) -> Next {
        let (link, id) = (&self.shared.link, connection.id);
        let result = match reply {
            // First, because a silent connection is given up as well.
            Err(error) if is_lost(&error) => {
                self.end_lost(connection, Calls::from_iter([call]), &error);
                return Next::Ended;
            }
            _ if connection.server.is_given_up() => Err(link.call_error(not_its_own(), Some(id.node))),
            Ok(reply) => {
                let decoded = call.decode(reply);
                if let Ok(decoded) = &decoded {
                    if let Decoded::Replies(replies) = decoded
                        && let Some(at) = replies.at()
                    {
                        self.shared.encoder.note_server_time(at.as_micros(), times);
                    }
                    link.record_reply(call.range());
                    connection.server.note_reply();
                } else {
                    connection.server.give_up();
                    self.connections.lose(id);
                }
                decoded
            }
            Err(error) if error.code() == Some("NOSCRIPT") && call.command.send_text() => {
                return Next::Again(call);
            }
            Err(error) if link.is_cluster() && is_redirect(&error) => {
                return Next::Moved(call, Redirect { from: id.node, error });
            }
            Err(error) => Err(link.record_error(error, id.known(), call.range())),
        };
        call.finish(result);
        Next::Ended
    }

    /// Ends calls that got no reply in time.
    fn end_silent(self: &Arc<Self>, connection: &Connection, calls: Calls) {
        let link = &self.shared.link;
        // First, so that the circuit breaker knows of it when the tasks that wait go on.
        for range in ranges_of(&calls) {
            link.record_timeout(range, connection.id.known());
        }
        if connection.server.note_silence(link.breaker) {
            // Another connection may serve.
            self.connections.lose(connection.id);
        }
        calls.into_iter().for_each(|call| call.finish(Err(CallError::Timeout(link.deadline()))));
    }

    /// Ends calls whose connection was lost before the reply, so that it is unknown whether they ran.
    fn end_lost(self: &Arc<Self>, connection: &Connection, calls: Calls, error: &RedisError) {
        let link = &self.shared.link;
        self.connections.lose(connection.id);
        if link.is_cluster() {
            for range in ranges_of(&calls) {
                let _ = link.record_error(error.clone(), connection.id.known(), range);
            }
        }
        let error = link.call_error(error.clone(), Some(connection.id.node));
        calls.into_iter().for_each(|call| call.finish(Err(error.clone())));
    }

    /// Learns from a redirect where the keys of a call are. Returns the node of an `ASK`, which has the keys,
    /// but not yet the hash slot.
    fn learn(self: &Arc<Self>, call: &Call, Redirect { from, error }: &Redirect) -> Option<NodeId> {
        let Some(nodes) = &self.shared.link.nodes else { return None };
        self.shared.attachments.renew(*from);
        self.connections.learn_owners();
        nodes.learn(call.hash_slot, *from, error).filter(|_| error.code() == Some("ASK"))
    }
}

/// The slot ranges of calls, each once: a write counts as one failure of each range.
fn ranges_of(calls: &Calls) -> SmallVec<[usize; 1]> {
    let mut ranges: SmallVec<[usize; 1]> = calls.iter().map(|call| call.range()).collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

fn not_its_own() -> RedisError {
    RedisError::from((ErrorKind::Io, "a reply was not that of its call"))
}
