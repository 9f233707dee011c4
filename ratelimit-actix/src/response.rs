//! What a client sees: header fields with its quota, and the response to a rejected request.

mod accept;
mod body;
mod drain;
mod header_style;
mod headers;
mod kept_body;
mod rejection;
mod style;

pub(crate) use self::body::CustomBody;
pub use self::body::{BodyStyle, RejectionInfo};
pub(crate) use self::drain::drain;
pub use self::header_style::HeaderStyle;
pub(crate) use self::headers::{field_names, number, write};
pub(crate) use self::kept_body::{Held, hold, keep};
pub use self::rejection::{MissingCaller, RateLimited, Rejection, Unavailable};
pub(crate) use self::style::{ResponseStyle, StyleSettings};
