//! The rows of overrides that decide, and where their numbers come from.

use std::collections::BTreeMap;

use ratelimit_core::Policy;
use serde::Serialize;

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// The program: an attribute or a policy.
    Program,
    /// The overrides of the limit, for all callers.
    #[cfg_attr(not(feature = "overrides"), allow(dead_code, reason = "only overrides have it"))]
    Limit,
    /// The row of a plan.
    #[cfg_attr(not(feature = "overrides"), allow(dead_code, reason = "only overrides have it"))]
    Plan,
    /// The row of a caller.
    #[cfg_attr(not(feature = "overrides"), allow(dead_code, reason = "only overrides have it"))]
    Caller,
    /// An earlier decision, by numbers that nothing declares: they were made at run time, or overrides had them.
    Decision,
}

/// A row of the overrides, or what the program has.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) origin: Origin,
    /// The name of the plan or the text of the caller.
    pub(super) name: Option<String>,
    pub(super) policy: Policy,
    pub(super) is_off: bool,
    pub(super) overridden: BTreeMap<&'static str, Origin>,
}

impl Row {
    /// Numbers without overrides.
    pub(super) fn new(origin: Origin, policy: &Policy) -> Self {
        let policy = policy.clone();
        Self { origin, name: None, policy, is_off: false, overridden: BTreeMap::new() }
    }

    /// Whether `max` means something. `is_computed` says that the program computes it for each request.
    pub(super) fn has_max(&self, is_computed: bool) -> bool {
        !is_computed || self.overridden.contains_key("max")
    }
}

/// The overrides as a whole.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OverridesView {
    /// The name of their file.
    pub(super) source: String,
    /// Numbers of limits with overrides, and of rows.
    pub(super) limits: usize,
    pub(super) rows: usize,
    /// Why the newest contents of the file are not in force. `None` if they are.
    pub(super) rejected: Option<String>,
}
