//! The limits of all attributes in the program: to log at start, to serve as a table, or to assert in a test.

mod check;

use std::fmt;

use ratelimit_core::{Mode, Policy};

pub use self::check::{DeclaredLimitsError, SharedCount, check_declared_limits};
use crate::written_limit::computed::Computed;
use crate::written_limit::{self, WrittenLimit};

/// The limits of one handler, as the attribute writes them into a `static`: `L` is an array there, and a
/// slice in the list.
#[derive(Debug)]
pub struct Declaration<L: ?Sized = [WrittenLimit]> {
    /// The name of the handler, with the type for an associated function.
    pub handler: &'static str,
    /// The module of the handler.
    pub module: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line of the name.
    pub line: u32,
    /// The limits.
    pub limits: L,
}

/// An entry of the list that the linker makes. The entry is small, because the macro that submits it expands
/// it several times.
#[derive(Debug)]
pub struct Declared(pub &'static Declaration);

inventory::collect!(Declared);

/// One `#[rate_limit]` or `#[concurrency_limit]` of the program. `Display` writes it on one line.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredLimit {
    declaration: &'static Declaration,
    limit: &'static WrittenLimit,
}

impl DeclaredLimit {
    /// The name of the handler, such as `user`, or `Api::list` for an associated function.
    pub const fn handler(&self) -> &'static str {
        self.declaration.handler
    }

    /// The path of the module of the handler.
    pub const fn module(&self) -> &'static str {
        self.declaration.module
    }

    /// The source file of the handler, as passed to the compiler.
    pub const fn file(&self) -> &'static str {
        self.declaration.file
    }

    /// The line of the handler's name in the source file.
    pub const fn line(&self) -> u32 {
        self.declaration.line
    }

    /// The policy of the limit: its key, name and numbers.
    ///
    /// A number that is computed for each request is not that of the policy: [`max`](Self::max) is `None`
    /// then, and [`has_computed_anchor`](Self::has_computed_anchor) is true if the day on which windows of
    /// a calendar begin is computed.
    pub const fn policy(&self) -> &'static Policy {
        self.limit.policy()
    }

    /// Units per window, or requests at a time. `None` if `max` is computed for each request.
    pub const fn max(&self) -> Option<u64> {
        if self.limit.computed.max.is_computed() { None } else { Some(self.limit.policy().max()) }
    }

    /// Whether `anchor`, the day on which windows of a calendar begin, is computed for each request.
    pub const fn has_computed_anchor(&self) -> bool {
        self.limit.computed.anchor.is_computed()
    }

    /// Units that a request costs. `None` if the cost is computed for each request.
    pub const fn cost(&self) -> Option<u64> {
        if self.limit.computed.cost.is_computed() { None } else { Some(self.limit.cost) }
    }

    /// What distinguishes callers, as in the source: `ip`, `path("id")`, the placeholders of a template, or
    /// the code of a closure.
    pub const fn by(&self) -> &'static str {
        self.limit.by_text
    }

    /// Which responses count, as in the source: `all`, `failures`, `successes`, or the code of a closure.
    pub const fn count(&self) -> &'static str {
        self.limit.count_text
    }

    /// Whether responses that count are charged, and nothing before.
    pub const fn charges_after(&self) -> bool {
        self.limit.charges_after(self.limit.policy())
    }

    /// Whether the limit has `skip`, so that some requests are not counted.
    pub const fn skips(&self) -> bool {
        self.limit.computed.skip.is_computed()
    }

    /// The name that clients see.
    #[cfg(feature = "utoipa")]
    pub(crate) fn public_name(&self) -> &'static str {
        self.limit.public_name()
    }

    /// Whether a request may be rejected for want of a caller. Code that finds the caller may find none.
    #[cfg(feature = "utoipa")]
    pub(crate) fn may_lack_caller(&self) -> bool {
        self.limit.rejects_missing() && self.limit.by.may_be_missing()
    }

    /// Whether the limit has `plan`, so that overrides may have rows for plans.
    pub const fn has_plan(&self) -> bool {
        self.limit.computed.plan.is_computed()
    }

    /// The path of the handler, which no other handler has.
    pub(crate) fn path(&self) -> String {
        format!("{}::{}", self.module(), self.handler())
    }

    /// The handler with its place in the source, for errors.
    fn place(&self) -> String {
        format!("`{}` ({}:{})", self.path(), self.file(), self.line())
    }

    /// What is computed for each request.
    pub(crate) const fn computed(&self) -> &'static Computed {
        &self.limit.computed
    }
}

impl fmt::Display for DeclaredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (declaration, policy) = (self.declaration, self.policy());
        write!(f, "{}::{}: ", declaration.module, declaration.handler)?;
        match self.max() {
            Some(max) => write!(f, "{max}")?,
            None => f.write_str("chosen")?,
        }
        match self.computed().calendar_of(policy) {
            _ if policy.is_concurrency() => write!(f, " at a time by {}", self.by())?,
            Some(calendar) => write!(f, " per {calendar} by {}, {:?}", self.by(), policy.algorithm())?,
            None => write!(f, " per {:?} by {}, {:?}", policy.window(), self.by(), policy.algorithm())?,
        }
        if policy.name() != policy.key() {
            write!(f, ", name {}", policy.name())?;
        }
        write!(f, ", key {}", policy.key())?;
        match self.cost() {
            Some(1) => {}
            Some(cost) => write!(f, ", cost {cost}")?,
            None => f.write_str(", cost chosen")?,
        }
        if let Some(block) = policy.block() {
            write!(f, ", blocks for {block:?}")?;
        }
        if policy.mode() != Mode::Enforce {
            write!(f, ", {}", policy.mode())?;
        }
        if self.count() != written_limit::ALL {
            let when = if self.charges_after() { ", charged after" } else { "" };
            write!(f, ", counts {}{when}", self.count())?;
        }
        if self.skips() {
            f.write_str(", with exceptions")?;
        }
        write!(f, " ({}:{})", declaration.file, declaration.line)
    }
}

/// Lists every `#[rate_limit]` and `#[concurrency_limit]` that is linked into the program, in the order of
/// modules and lines.
///
/// Includes handlers that are never mounted, and a generic handler once. No registration is needed: the
/// linker makes the list.
///
/// # Examples
///
/// A line for each limit at start, and a test that a handler has its limit:
///
/// ```
/// use actix_web::get;
/// use ratelimit_actix::{declared_limits, rate_limit};
///
/// #[rate_limit(max = 10, window = "60s", key = "user-api")]
/// #[get("/user/{user_id}")]
/// async fn user() -> &'static str {
///     "user"
/// }
///
/// for limit in declared_limits() {
///     println!("{limit}");
/// }
/// let found = declared_limits().into_iter().find(|limit| limit.handler() == "user").unwrap();
/// assert_eq!((found.policy().key(), found.max(), found.by()), ("user-api", Some(10), "ip"));
/// ```
pub fn declared_limits() -> Vec<DeclaredLimit> {
    let mut limits: Vec<DeclaredLimit> = inventory::iter::<Declared>()
        .flat_map(|&Declared(declaration)| {
            declaration.limits.iter().map(move |limit| DeclaredLimit { declaration, limit })
        })
        .collect();
    limits.sort_by_key(|limit| (limit.module(), limit.file(), limit.line(), limit.handler()));
    limits
}

/// The time zones of all attributes, which are looked up when a limiter is built. The core finds
/// them through the linker, because it does not know this crate.
#[cfg(feature = "calendar")]
mod zones {
    use ratelimit_core::__private_0_1::DeclaredZones;
    use ratelimit_core::policy::Calendar;

    use super::declared_limits;

    inventory::submit! { DeclaredZones { check } }

    fn check() -> Result<(), String> {
        for limit in declared_limits() {
            if let Some(Err(error)) = limit.policy().calendar().map(Calendar::check) {
                return Err(format!("limit of {}: {error}", limit.place()));
            }
        }
        Ok(())
    }
}

/// The limits that overrides may name, which the core finds in the same way.
#[cfg(feature = "overrides")]
mod known {
    use ratelimit_core::__private_0_1::{DeclaredLimits, KnownLimit};

    use super::{DeclaredLimit, declared_limits};
    use crate::address::Ipv6Prefix;
    use crate::caller::Caller;
    use crate::caller::notation::NotationError;

    inventory::submit! { DeclaredLimits { limits, caller: partition } }

    fn limits() -> Vec<KnownLimit> {
        declared_limits().iter().map(known).collect()
    }

    /// The partition of the caller that a row names. An IPv6 address without a prefix is that of its /64.
    fn partition(row: &str) -> Result<Vec<u8>, String> {
        let caller = Caller::from_notation(row, |address| Ipv6Prefix::DEFAULT.group(address));
        let partition =
            caller.and_then(|caller| Ok(caller.partition().ok_or(NotationError::Empty)?.to_vec()));
        partition.map_err(|error| error.to_string())
    }

    fn known(limit: &DeclaredLimit) -> KnownLimit {
        KnownLimit {
            policy: limit.policy().clone(),
            place: Some(format!("{} ({}:{})", limit.path(), limit.file(), limit.line())),
            cost: limit.cost(),
            computes_max: limit.max().is_none(),
            has_plan: limit.has_plan(),
            encodes_callers: true,
        }
    }
}
