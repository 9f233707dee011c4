//! Second stage: arguments and items to specifications. Rules that concern several values are checked here.

mod arguments;
pub(crate) mod block;
pub(crate) mod extractors;
pub(crate) mod group;
pub(crate) mod handler;
mod inherited;
pub(crate) mod spec;
