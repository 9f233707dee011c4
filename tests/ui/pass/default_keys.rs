//! Handlers whose paths are no keys as they stand: too long, of other letters, of types with parameters.

use actix_web::{App, Responder, get, web};
use ratelimit_actix::{declared_limits, rate_limit};

mod a_module_that_is_named_after_everything_that_somebody_wrote_into_a_description {
    pub mod and_a_module_inside_of_it_with_another_name_that_does_not_end {
        use super::super::*;

        #[rate_limit]
        #[rate_limit(max = 1000, window = "1h")]
        #[get("/long")]
        pub async fn and_a_handler() -> impl Responder {
            "ok"
        }
    }
}

mod größen {
    use super::*;

    #[rate_limit]
    #[get("/größe")]
    pub async fn maß() -> impl Responder {
        "ok"
    }
}

struct Of<T, const N: usize>(T);

#[rate_limit]
impl<T: Default + ToString + 'static> Of<T, { 1 + 1 }> {
    async fn value() -> String {
        T::default().to_string()
    }
}

struct Borrowed<'a, T>(&'a T);

#[rate_limit]
impl<T: 'static> Borrowed<'_, T> {
    async fn value() -> &'static str {
        "ok"
    }
}

fn main() {
    use a_module_that_is_named_after_everything_that_somebody_wrote_into_a_description as outer;
    let _ = App::new()
        .service(outer::and_a_module_inside_of_it_with_another_name_that_does_not_end::and_a_handler)
        .service(größen::maß)
        .route("/of", web::get().to(Of::<u8, 2>::value))
        .route("/borrowed", web::get().to(Borrowed::<u8>::value));
    let limits = declared_limits();
    let mut keys: Vec<&str> = limits.iter().map(|limit| limit.policy().key()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert!(keys.iter().all(|key| key.len() <= 128 && key.is_ascii()), "{keys:?}");
    for (handler, part) in [
        ("and_a_handler", "::and_a_handler~"),
        ("and_a_handler", "::and_a_handler#2~"),
        ("maß", "::gr__en::ma_~"),
        ("Of<T, { 1 + 1 }>::value", "::Of<T,_1+1_>::value~"),
        ("Borrowed<'_, T>::value", "::Borrowed<'_,T>::value"),
    ] {
        let found =
            limits.iter().any(|limit| limit.handler() == handler && limit.policy().key().contains(part));
        assert!(found, "{handler} {part} {keys:?}");
    }
}
