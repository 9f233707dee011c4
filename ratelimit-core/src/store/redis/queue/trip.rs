//! Calls on their way: from their write to their replies. What did not run is sent again, by the task that
//! has the call.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, Value};
use smallvec::SmallVec;
use tokio::time::sleep;

use super::call::Call;
use super::{Calls, Lane};
use crate::store::Deadline;
use crate::store::deadline::now;
use crate::store::redis::error::{CallError, is_lost};
use crate::store::redis::link::is_redirect;
use crate::store::redis::timeouts::reply_by;
use crate::store::redis::topology::{Connection, NodeId, no_node};

/// First and longest pause while a hash slot is between two nodes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(8));

/// What becomes of a call after a reply.
pub(super) enum Next {
    Ended,
    /// It did not run, and is sent again as it is now.
    Again(Call),
    /// It did not run: another node, or a later moment, may serve it.
    Moved(Call, Redirect),
}

/// The reply of a node that does not serve a call.
pub(super) struct Redirect {
    from: NodeId,
    error: RedisError,
}

/// Sends calls in one write over one connection, and gives each request its reply. Those that are sent again
/// go over the same connection, so that the requests behind them do not overtake them.
pub(super) async fn carry(lane: Arc<Lane>, connection: Connection, mut calls: Calls) {
    let link = &lane.shared.link;
    while !calls.is_empty() {
        let commands = calls.iter().map(|call| call.command.to_cmd()).collect();
        let sent = Deadline::after(link.deadline());
        let replies = match reply_by(sent, connection.server.send_calls(commands)).await {
            Ok(replies) => replies,
            Err(error) => return lane.end_silent(&connection, calls, &error),
        };
        if let Some(Err(error)) = replies.first()
            && is_lost(error)
        {
            return lane.end_lost(&connection, calls, error);
        }
        if replies.iter().any(Result::is_ok) {
            link.observer.replied(now().saturating_duration_since(sent.since()));
        }
        for (call, reply) in mem::take(&mut calls).into_iter().zip(replies) {
            match lane.take_reply(&connection, call, reply) {
                Next::Ended => {}
                Next::Again(call) => calls.push(call),
                Next::Moved(call, redirect) => lane.find(call, Some(redirect)),
            }
        }
    }
}

/// Sends a call of a cluster to the node that has its keys, and follows redirects for half of the deadline.
pub(super) async fn follow(lane: Arc<Lane>, mut call: Call, redirect: Option<Redirect>) {
    let link = &lane.shared.link;
    let (mut asked, mut pause) = (redirect.and_then(|redirect| lane.learn(&call, &redirect)), PAUSES.0);
    let start = Deadline::after(link.deadline());
    let end = start.since() + link.deadline() / 2;
    call.reroute();
    loop {
        let to_ask = asked.take();
        let sent = async {
            let node = to_ask.or_else(|| link.owner(call.hash_slot));
            let node = node.ok_or_else(|| no_node("no node is known to have the hash slot of the key"))?;
            let connection = lane.connections.reach(node).await?;
            let command = call.command.to_cmd();
            let reply = match to_ask {
                Some(_) => connection.server.ask(command).await,
                None => connection.server.send(&command).await,
            };
            RedisResult::Ok((connection, reply))
        };
        let (connection, reply) = match reply_by(start, sent).await {
            Ok(Ok(replied)) => replied,
            Ok(Err(error)) => {
                let error = link.record_error(error, link.present_generation(), call.range());
                return call.finish(Err(error));
            }
            Err(error) => {
                link.record_timeout(call.range(), link.present_generation());
                return call.finish(Err(error));
            }
        };
        match lane.take_reply(&connection, call, reply) {
            Next::Ended => return,
            Next::Again(again) => call = again,
            Next::Moved(moved, Redirect { error, .. }) if now() >= end => {
                let error = link.record_error(error, connection.id.generation, moved.range());
                return moved.finish(Err(error));
            }
            Next::Moved(moved, redirect) => {
                call = moved;
                asked = lane.learn(&call, &redirect);
                sleep(pause).await;
                pause = (2 * pause).min(PAUSES.1);
            }
        }
    }
}

impl Lane {
    /// Takes the reply to a call. One that is sent again is wanted: it would charge no request for nothing.
    pub(super) fn take_reply(
        self: &Arc<Self>,
        connection: &Connection,
        call: Call,
        reply: RedisResult<Value>,
    ) -> Next {
        match self.next(connection, call, reply) {
            Next::Again(call) | Next::Moved(call, _) if !call.is_wanted() => {
                call.finish(Err(CallError::Unavailable));
                Next::Ended
            }
            next => next,
        }
    }

    /// The same. If the reply is not that of the call, the connection is given up.
    fn next(self: &Arc<Self>, connection: &Connection, mut call: Call, reply: RedisResult<Value>) -> Next {
        let (link, id) = (&self.shared.link, connection.id);
        let result = match reply {
            _ if connection.server.is_given_up() => Err(link.call_error(not_its_own())),
            Ok(reply) if call.correct_windows(&reply) => return Next::Again(call),
            Ok(reply) => {
                let decoded = call.decode(reply);
                if decoded.is_ok() {
                    link.record_reply(call.range());
                    connection.server.note_reply();
                } else {
                    connection.server.give_up();
                    self.connections.lose(id);
                }
                decoded
            }
            Err(error) if error.code() == Some("NOSCRIPT") && call.command.is_by_digest() => {
                call.send_text();
                return Next::Again(call);
            }
            Err(error) if link.is_cluster() && is_redirect(&error) => {
                return Next::Moved(call, Redirect { from: id.node, error });
            }
            Err(error) if is_lost(&error) => {
                self.end_lost(connection, Calls::from_iter([call]), &error);
                return Next::Ended;
            }
            Err(error) => Err(link.record_error(error, id.generation, call.range())),
        };
        call.finish(result);
        Next::Ended
    }

    /// Ends calls that got no reply in time.
    fn end_silent(self: &Arc<Self>, connection: &Connection, calls: Calls, error: &CallError) {
        let link = &self.shared.link;
        // First, so that the next requests, and what waits, meet a circuit breaker that knows.
        for range in ranges_of(&calls) {
            link.record_timeout(range, connection.id.generation);
        }
        if connection.server.note_silence(link.breaker) {
            // Another may serve.
            self.connections.lose(connection.id);
        }
        calls.into_iter().for_each(|call| call.finish(Err(error.clone())));
    }

    /// Ends calls whose connection was lost before the reply, so that it is unknown whether they ran.
    fn end_lost(self: &Arc<Self>, connection: &Connection, calls: Calls, error: &RedisError) {
        let link = &self.shared.link;
        self.connections.lose(connection.id);
        // The connection of a worker that is lost alone says nothing about the store's.
        if link.is_cluster() || self.of_store.is_none() {
            for range in ranges_of(&calls) {
                let _ = link.record_error(error.clone(), connection.id.generation, range);
            }
        }
        let error = link.call_error(error.clone());
        calls.into_iter().for_each(|call| call.finish(Err(error.clone())));
    }

    /// Learns from a redirect where the keys of a call are. Returns the node to ask, if it has the keys, but
    /// not yet the hash slot.
    fn learn(self: &Arc<Self>, call: &Call, Redirect { from, error }: &Redirect) -> Option<NodeId> {
        let Some(nodes) = &self.shared.link.nodes else { return None };
        self.shared.riders.renew(*from);
        self.connections.learn_owners();
        nodes.learn(call.hash_slot, *from, error).filter(|_| error.code() == Some("ASK"))
    }
}

/// The slot ranges of calls: a write counts as one failure of each.
fn ranges_of(calls: &Calls) -> SmallVec<[usize; 1]> {
    let mut ranges: SmallVec<[usize; 1]> = calls.iter().map(Call::range).collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

fn not_its_own() -> RedisError {
    RedisError::from((ErrorKind::Io, "a reply was not that of its call"))
}
