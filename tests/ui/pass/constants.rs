//! Numbers as constant expressions.

use actix_web::{App, get};
use ratelimit_actix::rate_limit;

const MAX: u64 = 10;

mod settings {
    pub const PARTS: u64 = 6;

    pub const fn burst(factor: u64) -> u64 {
        super::MAX * factor
    }
}

#[rate_limit(max = MAX * 2, window = "60s", sub_windows = settings::PARTS, cost = MAX / 2)]
#[get("/counter")]
async fn counter() -> &'static str {
    "ok"
}

#[rate_limit(max = MAX, burst = settings::burst(3), algorithm = "token_bucket", cost = if MAX > 5 { 2 } else { 1 })]
#[get("/bucket")]
async fn bucket() -> &'static str {
    "ok"
}

macro_rules! limited {
    ($name:ident, $max:expr, $window:literal, $key:literal) => {
        #[rate_limit(max = $max, window = $window, key = $key)]
        #[get("/generated")]
        async fn $name() -> &'static str {
            "ok"
        }
    };
}

limited!(generated, 5, "5m", "generated");

pub fn main() {
    let _ = App::new().service(counter).service(bucket).service(generated);
}
