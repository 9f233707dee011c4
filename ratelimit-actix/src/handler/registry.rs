//! The registry of all attributes in the program: to log at start, to serve as a table, or to assert in a test; and what is wrong
//! with them together.
//!
//! Limits of one handler that share a count are found when the program runs, because each handler compiles by itself, and because
//! the compiler sees no policies by path.

use std::{fmt, ptr};

use ratelimit_core::__private_0_1::state_id;
use ratelimit_core::{Mode, Policy};

use super::limit::{Computed, HandlerLimit, SourceText};

/// The limits of one handler, as the attribute writes them into a `static`: `L` is an array there, and a slice in the list.
#[derive(Debug)]
pub struct Declaration<L: ?Sized = [HandlerLimit]> {
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

/// An entry of the list that the linker makes. The entry is small, because the macro that submits it expands it several times.
#[derive(Debug)]
pub struct Declared(pub &'static Declaration);

inventory::collect!(Declared);

/// One `#[rate_limit]` or `#[concurrency_limit]` of the program. `Display` writes it on one line.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredLimit {
    declaration: &'static Declaration,
    limit: &'static HandlerLimit,
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
    /// A number that is computed for each request is not that of the policy: [`max`](Self::max) is `None` then, and
    /// [`has_computed_anchor`](Self::has_computed_anchor) tells of the day on which windows of a calendar begin.
    pub const fn policy(&self) -> &'static Policy {
        self.limit.policy()
    }

    /// Units per window, or requests at a time. `None` if `max` is computed for each request.
    pub const fn max(&self) -> Option<u64> {
        if self.limit.computed.max { None } else { Some(self.limit.policy().max()) }
    }

    /// Whether `anchor`, the day on which windows of a calendar begin, is computed for each request.
    pub const fn has_computed_anchor(&self) -> bool {
        self.limit.computed.anchor
    }

    /// Units that a request costs. `None` if the cost is computed for each request.
    pub const fn cost(&self) -> Option<u64> {
        if self.limit.text.has_dynamic_cost { None } else { Some(self.limit.written.cost) }
    }

    /// What tells callers apart, as in the source: `ip`, `path("id")`, the placeholders of a template, or the code of a closure.
    pub const fn by(&self) -> &'static str {
        self.limit.text.by
    }

    /// Which responses count, as in the source: `all`, `failures`, `successes`, or the code of a closure.
    pub const fn count(&self) -> &'static str {
        self.limit.text.count
    }

    /// Whether the limit has `skip`, so that some requests are not counted.
    pub const fn skips(&self) -> bool {
        self.limit.text.skips
    }

    /// The name that clients see.
    #[cfg(feature = "utoipa")]
    pub(crate) fn public_name(&self) -> &'static str {
        self.limit.written.public_name()
    }

    /// Whether a request may be rejected for want of a caller. Code that finds the caller may find none.
    #[cfg(feature = "utoipa")]
    pub(crate) fn may_lack_caller(&self) -> bool {
        self.limit.rejects_missing() && (self.by().contains('|') || self.limit.by.may_be_missing())
    }

    /// Whether the limit has `plan`, so that overrides may have rows for plans.
    pub const fn has_plan(&self) -> bool {
        self.limit.text.has_plan
    }

    /// The path of the handler, which no other handler has.
    pub(crate) fn path(&self) -> String {
        format!("{}::{}", self.module(), self.handler())
    }

    /// What is computed for each request.
    pub(crate) const fn computed(&self) -> Computed {
        self.limit.computed
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
        match (self.computed().calendar_of(policy), policy.rate_window()) {
            (Some(calendar), _) => write!(f, " per {calendar} by {}, {:?}", self.by(), policy.algorithm())?,
            (None, Some(window)) => write!(f, " per {window:?} by {}, {:?}", self.by(), policy.algorithm())?,
            (None, None) => write!(f, " at a time by {}", self.by())?,
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
        if self.count() != SourceText::DEFAULT.count {
            write!(f, ", counts {}", self.count())?;
        }
        if self.skips() {
            f.write_str(", with exceptions")?;
        }
        write!(f, " ({}:{})", declaration.file, declaration.line)
    }
}

/// Lists every `#[rate_limit]` and `#[concurrency_limit]` that is linked into the program, in the order of modules and lines.
///
/// Includes handlers that are never mounted, and a generic handler once. No registration is needed: the linker makes the list.
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

/// Limits of one handler that share a count, and would charge each request twice: the error of [`check_declared_limits`].
///
/// `Display` has a line for each pair, with the places of both.
#[derive(Clone, thiserror::Error)]
#[error("{}", lines(.pairs))]
pub struct DeclaredLimitsError {
    pairs: Vec<SharedCount>,
}

/// Two limits of one handler that share a count. `Display` tells what to change.
#[derive(Clone, Copy, Debug)]
pub struct SharedCount {
    first: DeclaredLimit,
    second: DeclaredLimit,
}

impl DeclaredLimitsError {
    /// The pairs, each in the order of the program's limits.
    pub fn pairs(&self) -> &[SharedCount] {
        &self.pairs
    }
}

impl SharedCount {
    /// The limit that may keep its count.
    pub const fn first(&self) -> &DeclaredLimit {
        &self.first
    }

    /// The limit that needs another count.
    pub const fn second(&self) -> &DeclaredLimit {
        &self.second
    }
}

impl fmt::Debug for DeclaredLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, key) = (place(&self.second), self.second.policy().key());
        if self.second.policy().is_concurrency() {
            return write!(
                f,
                "two limits of {second} both count in `{key}`, so a request holds two slots; remove one, or give it another key"
            );
        }
        write!(
            f,
            "two limits of {second} both count in `{key}`, so a request is charged twice; remove one, or give it another key or \
             window"
        )
    }
}

fn place(limit: &DeclaredLimit) -> String {
    format!("`{}` ({}:{})", limit.path(), limit.file(), limit.line())
}

fn lines(pairs: &[SharedCount]) -> String {
    pairs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks what the compiler cannot see: two limits of one handler need different counts, because they would charge a request twice.
///
/// The compiler compares limits that are written in the attribute; this function also compares policies by path and constants. It
/// takes limits with another `by` for different counts, and leaves out limits with `skip`, which may apply to different requests.
///
/// Call it at the start of the program or in a test.
///
/// # Errors
///
/// [`DeclaredLimitsError`] with all such limits, and their places in the source.
///
/// # Examples
///
/// ```
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     ratelimit_actix::check_declared_limits()?;
///     Ok(())
/// }
/// ```
pub fn check_declared_limits() -> Result<(), DeclaredLimitsError> {
    let limits = declared_limits();
    let mut pairs = Vec::new();
    for (index, second) in limits.iter().enumerate() {
        // The limits of a handler have an order.
        let first = limits[..index].iter().find(|first| is_charged_by_both(first, second));
        pairs.extend(first.map(|first| SharedCount { first: *first, second: *second }));
    }
    if pairs.is_empty() { Ok(()) } else { Err(DeclaredLimitsError { pairs }) }
}

/// With `skip`, two limits may apply to different requests.
fn is_charged_by_both(first: &DeclaredLimit, second: &DeclaredLimit) -> bool {
    // The compiler has compared the code of a computed `max`.
    ptr::eq(first.declaration, second.declaration)
        && first.by() == second.by()
        && ![first, second].into_iter().any(|limit| limit.skips() || is_unknown_bucket(limit))
        // Only the count of a token bucket depends on `max`, so a computed one matters to unknown buckets only.
        && state_id(first.policy()) == state_id(second.policy())
}

/// Whether the count depends on a `max` that is computed for each request.
fn is_unknown_bucket(limit: &DeclaredLimit) -> bool {
    limit.max().is_none() && limit.policy().algorithm().has_burst()
}

/// The time zones of all attributes, which are looked up when a limiter is built.
#[cfg(feature = "calendar")]
mod zones {
    use ratelimit_core::__private_0_1::DeclaredZones;
    use ratelimit_core::policy::Calendar;

    use super::{declared_limits, place};

    inventory::submit! { DeclaredZones { check } }

    fn check() -> Result<(), String> {
        for limit in declared_limits() {
            if let Some(Err(error)) = limit.policy().calendar().map(Calendar::check) {
                return Err(format!("limit of {}: {error}", place(&limit)));
            }
        }
        Ok(())
    }
}
