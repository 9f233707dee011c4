// Stands for the attribute of actix-web-grants.
use actix_web::{App, get as protect};
use ratelimit_actix::rate_limit;

#[rate_limit]
#[protect("/admin")]
async fn user() -> &'static str {
    "ok"
}

fn main() {
    let _ = App::new().service(user);
}
