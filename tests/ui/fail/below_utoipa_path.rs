use actix_web::App;
use ratelimit_actix::rate_limit;

// Stands for the crate.
mod utoipa {
    pub(crate) use actix_web::get as path;
}

#[rate_limit]
#[utoipa::path("/")]
async fn user() -> &'static str {
    "ok"
}

fn main() {
    let _ = App::new().service(user);
}
