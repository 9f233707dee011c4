//! Attributes inside of a limited block use their imports, and need none.

#![deny(warnings, unused_imports)]

use actix_web::App;

mod handlers {
    use ratelimit_actix::{concurrency_limit, no_rate_limit, rate_limit};

    pub struct Api;

    #[rate_limit(max = 3)]
    impl Api {
        pub async fn one() -> &'static str {
            "ok"
        }

        #[no_rate_limit]
        pub async fn two() -> &'static str {
            "ok"
        }
    }

    #[rate_limit(max = 4)]
    impl Api {
        pub async fn three() -> &'static str {
            "ok"
        }

        #[concurrency_limit(max = 1)]
        pub async fn four() -> &'static str {
            "ok"
        }

        #[no_rate_limit]
        pub async fn five() -> &'static str {
            "ok"
        }
    }
}

#[ratelimit_actix::rate_limit(max = 3)]
mod inside {
    use actix_web::get;
    use ratelimit_actix::{no_rate_limit, rate_limit};

    #[rate_limit(max = 1)]
    #[get("/one")]
    pub async fn one() -> &'static str {
        "ok"
    }

    #[no_rate_limit]
    #[get("/two")]
    pub async fn two() -> &'static str {
        "ok"
    }
}

#[ratelimit_actix::rate_limit(max = 3)]
mod without {
    use actix_web::get;

    #[rate_limit(max = 1)]
    #[get("/three")]
    pub async fn one() -> &'static str {
        "ok"
    }

    #[no_rate_limit]
    #[get("/four")]
    pub async fn two() -> &'static str {
        "ok"
    }
}

#[ratelimit_actix::rate_limit(max = 3)]
mod with_paths {
    use actix_web::get;
    use ratelimit_actix as limits;

    #[get("/five")]
    pub async fn one() -> &'static str {
        "ok"
    }

    #[limits::no_rate_limit]
    #[get("/six")]
    pub async fn two() -> &'static str {
        "ok"
    }
}

fn main() {
    use handlers::Api;
    let route = actix_web::web::get;
    let _ = App::new()
        .route("/a", route().to(Api::one))
        .route("/b", route().to(Api::two))
        .route("/c", route().to(Api::three))
        .route("/d", route().to(Api::four))
        .route("/e", route().to(Api::five))
        .service((inside::one, inside::two, without::one, without::two, with_paths::one, with_paths::two));
}
