//! Reads code of the user in arguments: functions, types, expressions and callers.

pub(crate) mod by;
pub(crate) mod expr;
pub(crate) mod extractor_type;
pub(crate) mod request_fn;
pub(crate) mod tokens;
