//! What operators see of a limit that its policy does not tell, for the list of all limits.

/// What operators see of a limit that its policy does not tell: `by`, `count`, and what is computed for each request.
#[derive(Clone, Copy, Debug)]
pub struct SourceText {
    /// What tells callers apart.
    pub by: &'static str,
    /// Which responses count.
    pub count: &'static str,
    /// Whether the cost is computed for each request.
    pub has_dynamic_cost: bool,
    /// Whether `skip` is set.
    pub skips: bool,
    /// Whether `plan` is set.
    pub has_plan: bool,
}

impl SourceText {
    /// That of a limit without these arguments.
    pub const DEFAULT: Self =
        Self { by: "ip", count: "all", has_dynamic_cost: false, skips: false, has_plan: false };
}
