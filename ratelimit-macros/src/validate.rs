//! Second stage: arguments and items to specifications. Rules that concern several values are checked here.

pub(crate) mod arguments;
pub(crate) mod block;
pub(crate) mod handler;
pub(crate) mod spec;
