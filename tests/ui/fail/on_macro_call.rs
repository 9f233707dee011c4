//! On the call of a macro that writes a handler.

use ratelimit_actix::rate_limit;

macro_rules! handler {
    ($name:ident) => {
        async fn $name() -> &'static str {
            "ok"
        }
    };
}

#[rate_limit(max = 10)]
handler! {
    user
}

fn main() {}
