//! Modules, impl blocks, scopes, and handlers that macros write.

use actix_web::web;
use ratelimit_actix::rate_limit;
use tests::answer::{get as from_client, statuses};
use tests::store::{fresh, watched};
use tests::{send, service};

#[rate_limit(max = 1, by = global)]
mod api {
    use actix_web::get;

    #[get("/one")]
    pub(super) async fn one() -> String {
        helper().await
    }

    #[get("/two")]
    pub(super) async fn two() -> &'static str {
        "ok"
    }

    #[get("/own")]
    #[rate_limit(max = 2)]
    pub(super) async fn own() -> &'static str {
        "ok"
    }

    #[get("/open")]
    #[no_rate_limit]
    pub(super) async fn open() -> &'static str {
        "ok"
    }

    /// Not a handler.
    async fn helper() -> String {
        "ok".to_owned()
    }

    #[rate_limit]
    pub(super) async fn mounted() -> &'static str {
        "ok"
    }

    pub(super) mod deeper {
        #[actix_web::get("/deeper")]
        pub(in crate::blocks) async fn deeper() -> &'static str {
            "ok"
        }
    }
}

#[actix_web::test]
async fn a_module_limits_its_handlers_each_on_its_own() {
    let app = service!(
        fresh(),
        api::one,
        api::two,
        api::own,
        api::open,
        api::deeper::deeper,
        web::resource("/mounted").to(api::mounted),
    );
    for path in ["/one", "/two", "/mounted", "/deeper"] {
        assert_eq!(statuses(&app, path, 2).await, [200, 429], "{path}");
    }
    assert_eq!(statuses(&app, "/own", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/open", 3).await, [200, 200, 200]);
}

#[rate_limit(max = 3, by = global, key = "shared-by-all")]
mod shared {
    use actix_web::get;

    #[get("/a")]
    pub(super) async fn a() -> &'static str {
        "ok"
    }

    #[get("/b")]
    pub(super) async fn b() -> &'static str {
        "ok"
    }
}

#[actix_web::test]
async fn a_key_on_a_module_is_one_count_for_all_in_it() {
    let app = service!(fresh(), shared::a, shared::b);
    assert_eq!(statuses(&app, "/a", 2).await, [200, 200]);
    assert_eq!(statuses(&app, "/b", 2).await, [200, 429]);
}

#[rate_limit(max = 1, by = global)]
#[rate_limit(max = 5, by = global, key = "group")]
mod grouped {
    use actix_web::get;

    #[get("/grouped")]
    pub(super) async fn inherits() -> &'static str {
        "ok"
    }

    #[get("/more")]
    #[rate_limit]
    #[rate_limit(max = 7)]
    pub(super) async fn more() -> &'static str {
        "ok"
    }
}

#[actix_web::test]
async fn several_limits_on_a_module_are_a_group_for_each_handler() {
    let (limiter, watch) = watched();
    let app = service!(limiter, grouped::inherits, grouped::more);
    assert_eq!(statuses(&app, "/grouped", 1).await, [200]);
    assert_eq!((watch.calls(), watch.limits()), (1, 2));
    assert_eq!(statuses(&app, "/more", 1).await, [200]);
    assert_eq!((watch.calls(), watch.limits()), (2, 5));
}

// ---- Impl blocks ------------------------------------------------------------------------------------------

struct Users;
struct Orders;

#[rate_limit(max = 1, by = global)]
impl Users {
    const GREETING: &'static str = "users";

    async fn list() -> &'static str {
        Self::GREETING
    }

    async fn generic<T: Default + ToString>() -> String {
        Self::show(&T::default())
    }

    fn show(value: &impl ToString) -> String {
        value.to_string()
    }

    #[no_rate_limit]
    async fn open() -> &'static str {
        Self::GREETING
    }

    #[rate_limit(max = 2)]
    async fn own() -> &'static str {
        "ok"
    }
}

#[rate_limit(max = 1, by = global)]
impl Orders {
    async fn list() -> &'static str {
        "orders"
    }
}

struct Of<T>(T);

#[rate_limit(max = 1, by = global)]
impl<T: Default + ToString + 'static> Of<T> {
    async fn value() -> String {
        let Self(value) = Self(T::default());
        value.to_string()
    }
}

#[actix_web::test]
async fn an_impl_block_limits_its_handlers_and_self_works() {
    let app = service!(
        fresh(),
        web::resource("/users").to(Users::list),
        web::resource("/orders").to(Orders::list),
        web::resource("/generic").to(Users::generic::<u8>),
        web::resource("/open").to(Users::open),
        web::resource("/own").to(Users::own),
        web::resource("/of").to(Of::<u8>::value),
    );
    assert_eq!(send(&app, from_client("/users")).await.body, "users");
    assert_eq!(statuses(&app, "/users", 1).await, [429]);
    // The same name in another type is another count.
    assert_eq!(statuses(&app, "/orders", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/generic", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/of", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/own", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/open", 3).await, [200, 200, 200]);
}

// ---- Scopes -----------------------------------------------------------------------------------------------

#[rate_limit(max = 1, key = "above:{org}")]
#[actix_web::scope("/above/{org}")]
mod above_scope {
    use actix_web::get;

    #[get("/x")]
    pub(super) async fn x() -> &'static str {
        "ok"
    }
}

#[actix_web::scope("/below/{org}")]
#[rate_limit(max = 1, key = "below:{org}")]
mod below_scope {
    use actix_web::get;

    #[get("/x")]
    pub(super) async fn x() -> &'static str {
        "ok"
    }
}

#[actix_web::scope("/inside/{org}")]
mod inside_scope {
    use actix_web::get;
    use ratelimit_actix::rate_limit;

    #[rate_limit(max = 1, key = "inside:{org}")]
    #[get("/x")]
    pub(super) async fn x() -> &'static str {
        "ok"
    }
}

#[actix_web::test]
async fn scopes_work_above_and_below() {
    let app = service!(fresh(), above_scope::x, below_scope::x, inside_scope::x);
    for scope in ["above", "below", "inside"] {
        assert_eq!(statuses(&app, &format!("/{scope}/a/x"), 2).await, [200, 429], "{scope}");
        assert_eq!(statuses(&app, &format!("/{scope}/b/x"), 1).await, [200], "{scope}");
    }
}

// ---- Macros and conditions --------------------------------------------------------------------------------

macro_rules! module {
    ($name:ident, $max:expr, $path:literal) => {
        #[rate_limit(max = $max, by = global)]
        mod $name {
            #[actix_web::get($path)]
            pub(super) async fn handler() -> &'static str {
                "ok"
            }
        }
    };
}

module!(first, 1, "/first");
module!(second, 2, "/second");

#[cfg_attr(all(), rate_limit(max = 1, by = global))]
mod conditional {
    #[cfg_attr(all(), actix_web::get("/conditional"))]
    pub(super) async fn handler() -> &'static str {
        "ok"
    }
}

#[actix_web::test]
async fn handlers_from_macros_and_conditional_attributes_are_limited() {
    let app = service!(fresh(), first::handler, second::handler, conditional::handler);
    assert_eq!(statuses(&app, "/first", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/second", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/conditional", 2).await, [200, 429]);
}
