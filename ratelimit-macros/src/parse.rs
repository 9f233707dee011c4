//! First stage: tokens to arguments and items. Each value is checked on its own.

pub(crate) mod algorithm;
pub(crate) mod args;
pub(crate) mod by;
pub(crate) mod item;
pub(crate) mod keywords;
pub(crate) mod name;
pub(crate) mod number;
pub(crate) mod request_fn;
pub(crate) mod route;
pub(crate) mod template;
pub(crate) mod value;
pub(crate) mod window;
