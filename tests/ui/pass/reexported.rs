//! The facade under another name.

use actix_web::{App, get};

mod facade {
    pub mod limits {
        pub use ratelimit_actix::*;
    }
}

#[facade::limits::rate_limit(max = 10, crate = crate::reexported::facade::limits)]
#[get("/reexported")]
async fn reexported() -> &'static str {
    "ok"
}

pub fn main() {
    let _ = App::new().service(reexported);
}
