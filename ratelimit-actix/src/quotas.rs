//! What was decided about one request: by the limits of its handler and by those of the middleware around it.

mod group;
mod left_out;
mod limit_charge;
mod quota;
mod quota_error;
mod request_extension;
mod settlement;

use std::cell::RefCell;
use std::rc::Rc;

use actix_web::http::StatusCode;
use ratelimit_core::StoreError;
use smallvec::SmallVec;

use self::group::DecidedGroup;
use self::left_out::LeftOut;
pub use self::limit_charge::LimitCharge;
pub use self::quota::Quota;
pub(crate) use self::quota::{shown, tightest};
pub use self::quota_error::QuotaError;
pub(crate) use self::request_extension::{all_quotas, has_corrections, number_of_groups, with_groups};
pub use self::settlement::{SettleOnDrop, UsageCounter};
use crate::applied_limit::LimitRef;

/// What is left for the caller of this request under each of its limits: those of the middleware around the
/// handler, and those of the handler.
///
/// An extractor, for handlers that show or use what is left, or that learn the cost of a request only while
/// they run. It is empty if the request has no limit or is not counted.
///
/// # Examples
///
/// ```
/// use actix_web::{Responder, Result, get};
/// use ratelimit_actix::{Quotas, rate_limit};
///
/// /// A thousand rows per hour; how many a query finds is known afterwards.
/// #[rate_limit(max = 1000, window = "1h")]
/// #[get("/query")]
/// async fn query(quotas: Quotas) -> Result<impl Responder> {
///     let rows = vec!["row"; 20];
///     // The attribute has charged one unit before the handler runs.
///     quotas.charge_up_to(rows.len() as u64 - 1).await?;
///     Ok(rows.join("\n"))
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    decisions: Rc<RefCell<Decisions>>,
}

/// The decisions about one request, in their order.
#[derive(Debug, Default)]
struct Decisions {
    groups: SmallVec<[DecidedGroup; 1]>,
    left_out: LeftOut,
}

impl Quotas {
    /// A copy of each quota, also of [shadow limits](Quota::is_shadow): those of the outermost middleware
    /// first, and within a group in the order of the source.
    pub fn to_vec(&self) -> Vec<Quota> {
        self.with_groups(|groups| groups.concat())
    }

    /// The quota that the caller runs out of first. Limits that this response does not show take no part,
    /// such as shadow limits.
    pub fn tightest(&self) -> Option<Quota> {
        self.with(|quotas| tightest(quotas).cloned())
    }

    /// How many more requests of cost 1 pass all limits now. `None` if no limit applies to this request that
    /// the response shows.
    pub fn remaining(&self) -> Option<u64> {
        self.with(|quotas| quotas.iter().map(|quota| quota.outcome().remaining()).min())
    }

    /// Charges every limit of this request `units` more, or all units that are left if these are fewer: also
    /// those of middleware, and those that the handler [checked by hand](crate::admit). Returns how many were
    /// charged to the limit that had the fewest. The header fields of the response then report what is left.
    ///
    /// A request holds one slot of a concurrency limit, whatever it is charged here. Limits that share a
    /// count are charged `units` each. A group of limits takes one round trip; in a Redis cluster the limits
    /// of each caller take one, and are charged as many units as these have left. If not even one unit is
    /// left, that is a denial of one unit: under a limit with a [block](crate::PolicyBuilder::block) it
    /// begins the block. Shadow limits are charged if the units fit, and do not lower their number. Limits
    /// that charge after the response are left out.
    ///
    /// A response that does not [count](crate::rate_limit) under a limit gives back what was charged here as
    /// well, unless the limit is settled. The refund takes one round trip for each call of `charge_up_to`.
    ///
    /// To charge a cost as a whole or not at all, check it by hand: [`admit`](crate::admit). To correct what
    /// one limit was charged, select it by [`limit`](Self::limit).
    ///
    /// # Errors
    ///
    /// [`QuotaError::Limiter`] if the store does not answer within its deadline (100 ms with Redis). Other
    /// groups of limits, and in a cluster other callers, may have been charged by then.
    pub async fn charge_up_to(&self, units: u64) -> Result<u64, QuotaError> {
        let groups = self.decisions.borrow().groups.clone();
        let mut fewest = units;
        for (position, group) in groups.iter().enumerate() {
            let mut uncharged = vec![group.rates()];
            while let Some(limits) = uncharged.pop().filter(|limits| !limits.is_empty()) {
                let (charged, outcome) = match group.charge(&limits, units).await {
                    Err(error @ StoreError::SeveralCallers) => {
                        let (first, others) = group.of_first_caller(&limits);
                        if others.is_empty() {
                            return Err(error.into());
                        }
                        uncharged.extend([others, first]);
                        continue;
                    }
                    charged => charged?,
                };
                fewest = fewest.min(charged);
                let note = if charged > 0 { Quota::add_charge } else { Quota::set_left };
                self.with_group(position, |group| {
                    let noted = limits.iter().zip(outcome.outcomes());
                    noted.for_each(|(&index, outcome)| note(&mut group.quotas[index], outcome.clone()));
                });
            }
        }
        Ok(fewest)
    }

    fn with_group<R>(&self, position: usize, change: impl FnOnce(&mut DecidedGroup) -> R) -> Option<R> {
        self.decisions.borrow_mut().groups.get_mut(position).map(change)
    }

    fn with_groups<R>(&self, read: impl FnOnce(&[&[Quota]]) -> R) -> R {
        let decisions = self.decisions.borrow();
        let groups: SmallVec<[&[Quota]; 4]> = decisions.groups.iter().map(|group| &*group.quotas).collect();
        read(&groups)
    }

    /// Calls `read` with the quotas that clients see, those of the outermost middleware first.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&[&Quota]) -> R) -> R {
        self.with_groups(|groups| with_shown(groups, read))
    }

    /// The position of the last group that was decided.
    pub(crate) fn last_group(&self) -> Option<usize> {
        self.decisions.borrow().groups.len().checked_sub(1)
    }

    /// The position of the last group of attributes, if any applied. The groups before it are of middleware,
    /// which refunds them itself; after it are [checks by hand](crate::admit).
    pub(crate) fn group_of_attributes(&self) -> Option<usize> {
        self.with_groups(group_of_attributes)
    }

    /// Charges the limits of a group that count a response with this status and were charged nothing so far,
    /// and refunds those that do not count it. Returns whether the client sees other quotas then.
    ///
    /// After a refund that fails, the client sees its quota as charged. If what is left after a refund is
    /// unknown, the group loses its quotas.
    pub(crate) async fn correct(&self, position: usize, status: StatusCode) -> bool {
        let corrected = self.with_group(position, |group| group.close_uncounted(status));
        let Some((group, corrections)) = corrected.flatten() else { return false };
        let charged = group.charge_counted(&corrections).await;
        let is_shown = charged.iter().any(|(index, _)| group.quotas[*index].is_shown());
        self.with_group(position, |group| {
            for (index, outcome) in charged {
                group.quotas[index].add_charge(outcome);
            }
        });
        if !group.refund(&corrections).await {
            return is_shown;
        }
        let was_degraded = group.quotas.iter().any(Quota::was_degraded);
        let left = group.peek(was_degraded).await;
        self.with_group(position, |group| match left {
            Some(left) => group.set_left(&left),
            None => group.quotas.clear(),
        });
        !shown(&group.quotas).is_empty()
    }
}

/// Calls `read` with the quotas of these groups that clients see.
pub(crate) fn with_shown<R>(groups: &[&[Quota]], read: impl FnOnce(&[&Quota]) -> R) -> R {
    match groups {
        // Most requests have one limit, whose quota needs no list.
        [[quota]] if quota.is_shown() => read(&[quota]),
        groups => read(&shown(groups.iter().copied().flatten())),
    }
}

/// [`Quotas::group_of_attributes`] among these groups.
fn group_of_attributes(groups: &[&[Quota]]) -> Option<usize> {
    let is_of_attribute = |quota: &Quota| matches!(quota.limit.written, LimitRef::Attribute(_));
    groups.iter().rposition(|group| group.iter().any(is_of_attribute))
}
