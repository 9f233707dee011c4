//! Handlers, and parts of them, that a macro by example writes.

use actix_web::{App, get, web};
use ratelimit_actix::rate_limit;

macro_rules! limited {
    ($item:item) => {
        #[rate_limit(max = 10, window = "60s")]
        $item
    };
}

macro_rules! handler {
    ($(#[$attribute:meta])* $vis:vis $name:ident($argument:ident: $type:ty) -> $returned:ty $body:block) => {
        #[rate_limit]
        $(#[$attribute])*
        $vis async fn $name($argument: $type) -> $returned $body
    };
}

macro_rules! several {
    ($($name:ident)*) => {
        $(
            #[rate_limit(max = 10, key = "several")]
            #[get("/several")]
            async fn $name(request: actix_web::HttpRequest, pass: web::Path<u64>) -> String {
                format!("{}{pass}", request.path())
            }
        )*
    };
}

limited! {
    /// Documented.
    #[get("/item/{id}")]
    async fn item(id: web::Path<u64>) -> String {
        id.to_string()
    }
}

limited! {
    #[rate_limit(max = 100, window = "1h")]
    #[get("/stacked")]
    async fn stacked() -> &'static str {
        "ok"
    }
}

handler! {
    /// Documented.
    #[get("/parts/{id}")]
    #[rate_limit(max = 1)]
    pub parts(id: web::Path<u64>) -> String {
        id.to_string()
    }
}

several!(one two);

pub fn main() {
    let _ = App::new().service(item).service(stacked).service(parts).service(one).service(two);
}
