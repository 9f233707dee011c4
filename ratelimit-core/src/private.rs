//! Parts that `ratelimit-actix` shares with this crate. Not public: any version may change them.

pub use crate::policy::name::is_name_byte;
pub use crate::policy::state_id::{FNV_OFFSET, fnv1a};
