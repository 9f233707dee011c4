//! In a module without a prelude, and with items of the names that an expansion uses.

#[allow(dead_code, non_upper_case_globals)]
mod handlers {
    #![no_implicit_prelude]

    use ::ratelimit_actix::rate_limit;

    mod core {}
    mod std {}
    struct Result;
    struct Ok;
    struct Err;
    const pass: u8 = 0;

    #[rate_limit(max = 10, window = "60s", algorithm = "token_bucket", burst = 20, by = global)]
    #[rate_limit]
    pub async fn user(id: ::actix_web::web::Path<u64>) -> ::std::string::String {
        ::std::string::ToString::to_string(&id)
    }
}

pub fn main() {
    let _ = actix_web::App::new().route("/{id}", actix_web::web::get().to(handlers::user));
}
