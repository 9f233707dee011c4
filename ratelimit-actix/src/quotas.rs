//! What was decided about one request: by the limits of its handler and by those of the middleware around it.

mod limit_charge;
mod quota;
mod request_extension;
mod settlement;

use std::cell::RefCell;
use std::rc::Rc;

use actix_web::dev::Extensions;
use actix_web::{HttpMessage, HttpRequest};
use ratelimit_core::{Check, GroupOutcome, Outcome, RateLimiter, StoreError};
use smallvec::SmallVec;

pub use self::limit_charge::{LimitCharge, SettleError};
pub use self::quota::Quota;
pub(crate) use self::quota::{shown, tightest};
pub(crate) use self::request_extension::{all_quotas, has_uncounted, number_of_groups, with_quotas};
pub use self::settlement::{SettleOnDrop, UsageCounter};
use crate::applied_limit::LimitRef;

/// The quotas of limits that were checked together.
type QuotaGroup = SmallVec<[Quota; 1]>;

/// A group of limits, and the limiter that decided about it.
#[derive(Clone, Debug)]
struct DecidedGroup {
    limiter: RateLimiter,
    quotas: QuotaGroup,
}

/// What is left for the caller of this request under each of its limits: those of the middleware around the
/// handler, and those of the handler.
///
/// An extractor, for handlers that show or use what is left, or that learn the cost of a request only while
/// they run. It is empty if the request has no limit or is not counted.
///
/// # Examples
///
/// ```
/// use actix_web::{Responder, Result, error, get};
/// use ratelimit_actix::{Quotas, rate_limit};
///
/// /// A thousand rows per hour; how many a query finds is known afterwards.
/// #[rate_limit(max = 1000, window = "1h")]
/// #[get("/query")]
/// async fn query(quotas: Quotas) -> Result<impl Responder> {
///     let rows = vec!["row"; 20];
///     // The attribute has charged one unit before the handler runs.
///     // The error may describe the store, so the client does not see it.
///     let charged = quotas.charge(rows.len() as u64 - 1).await;
///     charged.map_err(|_| error::ErrorServiceUnavailable("try again later"))?;
///     Ok(rows.join("\n"))
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    decided: Rc<RefCell<SmallVec<[DecidedGroup; 1]>>>,
    /// The limits that were not checked.
    left_out: LeftOut,
}

impl Quotas {
    fn push(&self, decided: DecidedGroup) {
        self.decided.borrow_mut().push(decided);
    }

    /// The position of the last group that was decided.
    pub(crate) fn last_group(&self) -> Option<usize> {
        self.decided.borrow().len().checked_sub(1)
    }

    /// The position of the last group of attributes, if any applied. The groups before it are of middleware,
    /// which refunds them itself; behind it are denials of
    /// [checks by hand](crate::Rejection::unless_allowed).
    pub(crate) fn group_of_attributes(&self) -> Option<usize> {
        let is_of_attribute = |group: &DecidedGroup| group.quotas.iter().any(Quota::is_of_attribute);
        self.decided.borrow().iter().rposition(is_of_attribute)
    }

    /// Replaces the outcomes of a group by `left`, what is left after a refund. Without `left`, that is
    /// unknown, and the group loses its quotas.
    fn replace(&self, group: usize, left: Option<&GroupOutcome>) {
        let mut decided = self.decided.borrow_mut();
        let Some(group) = decided.get_mut(group) else { return };
        match left {
            Some(left) => update(group.quotas.iter_mut(), left, Quota::set_left),
            None => group.quotas.clear(),
        }
    }

    /// Calls `read` with the quotas of enforced limits, those of the outermost middleware first.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&[&Quota]) -> R) -> R {
        let decided = self.decided.borrow();
        read(&shown(decided.iter().flat_map(|decided| &decided.quotas)))
    }

    /// A copy of each quota, also of [shadow limits](Quota::is_shadow): those of the outermost middleware
    /// first, and within a group in the order of the source.
    pub fn to_vec(&self) -> Vec<Quota> {
        self.decided.borrow().iter().flat_map(|decided| &decided.quotas).cloned().collect()
    }

    /// The quota that the caller runs out of first. Shadow limits take no part.
    pub fn tightest(&self) -> Option<Quota> {
        self.with(|quotas| tightest(quotas).cloned())
    }

    /// How many more requests of cost 1 pass all limits now. `None` if no limit applies to this request but
    /// shadow limits.
    pub fn remaining(&self) -> Option<u64> {
        self.with(|quotas| quotas.iter().map(|quota| quota.outcome().remaining()).min())
    }

    /// Charges every limit of this request `units` more, or all units that are left if these are fewer.
    /// Returns how many were charged to the limit that had the fewest. The header fields of the response then
    /// report what is left.
    ///
    /// A request holds one slot of a concurrency limit, whatever it is charged here. Limits that share a
    /// count are charged `units` each. A group of limits takes one round trip. If not even one unit is left,
    /// that is a denial of one unit: under a limit with a [block](crate::PolicyBuilder::block) it begins the
    /// block. Shadow limits are charged if the units fit, and do not lower their number.
    ///
    /// A response that does not [count](crate::rate_limit) under a limit gives back what was charged here as
    /// well, unless the limit is settled. The refund takes one round trip for each call of `charge`.
    ///
    /// To correct what one limit was charged, select it by [`limit`](Self::limit).
    ///
    /// # Errors
    ///
    /// If the store does not answer within its deadline (100 ms with Redis). Other groups of limits may have
    /// been charged by then.
    pub async fn charge(&self, units: u64) -> Result<u64, StoreError> {
        let groups = self.decided.borrow().clone();
        let mut fewest = units;
        for (position, group) in groups.iter().enumerate() {
            let Some((charged, outcome)) = group.charge(units).await? else { continue };
            fewest = fewest.min(charged);
            if let Some(decided) = self.decided.borrow_mut().get_mut(position) {
                let charge = if charged > 0 { Quota::add_charge } else { Quota::set_left };
                update(decided.quotas.iter_mut().filter(|quota| quota.is_rate()), &outcome, charge);
            }
        }
        Ok(fewest)
    }
}

/// Passes the outcome of each limit on to its quota.
fn update<'q>(
    quotas: impl Iterator<Item = &'q mut Quota>,
    outcome: &GroupOutcome,
    update: fn(&mut Quota, Outcome),
) {
    for (quota, outcome) in quotas.zip(outcome.outcomes()) {
        update(quota, outcome.clone());
    }
}

impl DecidedGroup {
    /// Charges the rates as many of `units` as are left. `None` if there is none: slots are held, and not
    /// charged again.
    async fn charge(&self, units: u64) -> Result<Option<(u64, GroupOutcome)>, StoreError> {
        let rates = self.quotas.iter().filter(|quota| quota.is_rate());
        let checks: SmallVec<[Check<'_>; 2]> = rates.map(Quota::check).collect();
        if checks.is_empty() {
            return Ok(None);
        }
        self.limiter.check_up_to_all(&checks, units).await.map(Some)
    }
}

/// What was left out of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// Whether no limit is checked: the method is not counted, or the client is exempt.
    all: bool,
    /// Limits that are off, or that `skip` or a missing caller has left out.
    limits: SmallVec<[LimitRef; 1]>,
}

impl LeftOut {
    /// Notes that no limit is checked.
    #[cold]
    pub(crate) fn note_all(req: &HttpRequest) {
        req.extensions_mut().get_or_insert_with(Self::default).all = true;
    }

    /// Notes that one limit is not checked.
    #[cold]
    pub(crate) fn note(req: &HttpRequest, limit: LimitRef) {
        req.extensions_mut().get_or_insert_with(Self::default).limits.push(limit);
    }

    fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Whether a limit of this name may have been left out.
    fn includes(&self, name: &str) -> bool {
        self.all || self.limits.iter().any(|limit| limit.is_named(name))
    }

    /// The names of the limits, as far as they are known.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(|limit| limit.public_name())
    }
}
