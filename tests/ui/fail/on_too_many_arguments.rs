//! One argument more than Actix-web takes.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
async fn user(
    _a: u8,
    _b: u8,
    _c: u8,
    _d: u8,
    _e: u8,
    _f: u8,
    _g: u8,
    _h: u8,
    _i: u8,
    _j: u8,
    _k: u8,
    _l: u8,
    _m: u8,
    _n: u8,
    _o: u8,
    _p: u8,
    _q: String,
) -> &'static str {
    "ok"
}

fn main() {}
