//! What a client sees: header fields with its quota, and the response to a rejected request.

mod body;
mod headers;
mod kept_body;
mod rejection;

pub(crate) use self::body::CustomBody;
pub use self::body::{BodyStyle, RejectionInfo};
pub use self::headers::HeaderStyle;
pub(crate) use self::headers::{field_names, number, write};
pub(crate) use self::kept_body::{Held, drain, hold, keep};
pub use self::rejection::{MissingCaller, RateLimited, Rejection, Unavailable};
pub(crate) use self::rejection::{RequestStyle, StyleSettings, forbid_storing};
