//! Functions that find the caller of a request, for `by = ..` and for functions of your own.

mod client_ip;
mod composite;
pub(crate) mod into_caller;
mod on_missing;
mod path_param;
mod principal;
pub(crate) mod value;

pub(crate) use self::client_ip::by_address;
pub use self::client_ip::{client_ip, client_key};
pub(crate) use self::into_caller::IntoKey;
pub(crate) use self::on_missing::MissingCallerError;
pub use self::on_missing::OnMissing;
pub use self::path_param::path_key;
pub use self::principal::{Principal, principal, principal_or_address};
pub(crate) use self::value::Key;
