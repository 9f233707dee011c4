//! Groups of several callers in a cluster: one call for each caller, and compensation when one of them is denied.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::RedisStore;
use super::client::Started;
use super::command::{Call, Keys};
use super::deadline::Patience;
use super::protocol::RefundArguments;
use super::queue::Pending;
use super::script;
use crate::algorithm::Mode;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::{Reservation, Taken};

impl RedisStore {
    pub(crate) async fn reset_within(&self, group: &[Check<'_>], limit: Duration) -> Result<(), StoreError> {
        let patience = self.patience(limit);
        let started: SmallVec<[Started; 2]> = by_caller(group)
            .into_iter()
            .map(|part| {
                let namer = &self.encoder.namer;
                let keys = part.checks.iter().map(|check| namer.name(&namer.key(check))).collect();
                self.connection.delete(keys, patience, self.refusals.forget_after(&part.checks))
            })
            .collect();
        all(started).await
    }

    pub(super) async fn decide(
        &self,
        group: &[Check<'_>],
        mode: Mode,
        patience: Patience,
    ) -> Result<GroupOutcome, StoreError> {
        if self.connection.is_cluster() {
            let parts = by_caller(group);
            if parts.len() > 1 {
                return self.decide_in_parts(group.len(), &parts, mode, patience).await;
            }
        }
        self.submit(group, mode, patience).reply().await?.into_outcome(group)
    }

    /// Decides about several callers, who are on different nodes: charges them in order, and gives back what was charged
    /// when one of them is denied. All of that has one deadline.
    async fn decide_in_parts(
        &self,
        size: usize,
        parts: &[Part<'_>],
        mode: Mode,
        patience: Patience,
    ) -> Result<GroupOutcome, StoreError> {
        let mut outcomes: SmallVec<[GroupOutcome; 2]> = SmallVec::new();
        // The part that was denied, once there is one.
        let mut denied = None;
        if mode == Mode::Check {
            for (place, part) in parts.iter().enumerate() {
                let reply = self.submit(&part.checks, Mode::Check, patience).reply().await;
                match reply.and_then(|reply| reply.into_outcome(&part.checks)) {
                    Ok(outcome) if outcome.is_allowed() => outcomes.push(outcome),
                    Ok(outcome) => {
                        self.give_back(parts, &outcomes, patience).await;
                        denied = Some((place, outcome));
                        break;
                    }
                    Err(error) => {
                        self.give_back(parts, &outcomes, patience).await;
                        return Err(error);
                    }
                }
            }
        }
        let allowed = denied.is_none();
        if mode == Mode::Peek || !allowed {
            // Nothing more is charged, so all other nodes are asked at once: the client is told about all limits.
            let looks: SmallVec<[Look; 2]> = (parts.iter().enumerate())
                .map(|(place, part)| match denied.take_if(|(known, _)| *known == place) {
                    Some((_, outcome)) => Look::Known(outcome),
                    None => Look::Pending(self.submit(&part.checks, Mode::Peek, patience)),
                })
                .collect();
            outcomes.clear();
            for (look, part) in looks.into_iter().zip(parts) {
                outcomes.push(match look {
                    Look::Known(outcome) => outcome,
                    Look::Pending(pending) => pending.reply().await?.into_outcome(&part.checks)?,
                });
            }
        }
        let allowed = allowed && outcomes.iter().all(GroupOutcome::is_allowed);
        let places = parts.iter().map(|part| &part.places[..]);
        Ok(GroupOutcome::join(size, allowed, places.zip(&outcomes)))
    }

    /// Gives back what was charged for the first parts of a group, one outcome for each.
    async fn give_back(&self, parts: &[Part<'_>], outcomes: &[GroupOutcome], patience: Patience) {
        let started = parts.iter().zip(outcomes).filter_map(|(part, outcome)| {
            Some(self.start_refund(&outcome.reservation(&part.checks)?, patience))
        });
        let started: SmallVec<[Started; 2]> = started.flatten().collect();
        if let Err(error) = all(started).await
            && self.give_back_failed.may_log()
        {
            // It then counts until its window is over: one request too few passes, never one too many.
            tracing::warn!(error = %error, "could not give back what a denied group had taken");
        }
    }

    /// Sends a refund for each caller of a reservation.
    pub(super) fn start_refund(
        &self,
        reservation: &Reservation<'_>,
        patience: Patience,
    ) -> SmallVec<[Started; 2]> {
        let namer = &self.encoder.namer;
        let taken: SmallVec<[Taken<'_>; 2]> = reservation.taken().collect();
        taken
            .chunk_by(|one, next| one.check().partition() == next.check().partition())
            .map(|caller| {
                let mut keys = Keys::new();
                let mut arguments = RefundArguments::new((self.encoder.now)());
                for taken in caller {
                    keys.push(namer.name(&namer.key(&taken.check())));
                    arguments.push(taken);
                }
                let script = script::refund(caller.iter().map(|taken| taken.check().policy().algorithm()));
                let checks: SmallVec<[Check<'_>; 2]> = caller.iter().map(Taken::check).collect();
                let call = Call { script, keys, arguments: smallvec![arguments.into_bytes()] };
                self.connection.run(call, patience, self.refusals.forget_after(&checks))
            })
            .collect()
    }
}

/// Waits for all of them; the first error, if any.
pub(super) async fn all(started: SmallVec<[Started; 2]>) -> Result<(), StoreError> {
    let mut result = Ok(());
    for one in started {
        result = result.and(one.answer().await);
    }
    result
}

/// What is known of a part of a group while nothing is charged.
enum Look {
    Known(GroupOutcome),
    Pending(Pending),
}

/// The checks of a group that are about one caller, whose keys share a hash tag, and their places in the group.
struct Part<'a> {
    checks: SmallVec<[Check<'a>; 2]>,
    places: SmallVec<[usize; 2]>,
}

fn by_caller<'a>(group: &[Check<'a>]) -> SmallVec<[Part<'a>; 2]> {
    let mut parts: SmallVec<[Part<'a>; 2]> = SmallVec::new();
    for (place, check) in group.iter().enumerate() {
        match parts.iter_mut().find(|part| part.checks[0].partition() == check.partition()) {
            Some(part) => {
                part.checks.push(*check);
                part.places.push(place);
            }
            None => parts.push(Part { checks: smallvec![*check], places: smallvec![place] }),
        }
    }
    parts
}
