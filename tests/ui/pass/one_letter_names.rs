//! A handler named by every letter: route attributes make a unit struct of each, which no name in an
//! expansion may meet.

use actix_web::{App, get, web};
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, window = "60s")]
#[get("/a/{id}")]
async fn a(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/b/{id}")]
async fn b(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/c/{id}")]
async fn c(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/d/{id}")]
async fn d(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/e/{id}")]
async fn e(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/f/{id}")]
async fn f(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/g/{id}")]
async fn g(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/h/{id}")]
async fn h(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/i/{id}")]
async fn i(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/j/{id}")]
async fn j(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/k/{id}")]
async fn k(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/l/{id}")]
async fn l(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/m/{id}")]
async fn m(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/n/{id}")]
async fn n(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/o/{id}")]
async fn o(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/p/{id}")]
async fn p(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/q/{id}")]
async fn q(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/r/{id}")]
async fn r(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/s/{id}")]
async fn s(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/t/{id}")]
async fn t(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/u/{id}")]
async fn u(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/v/{id}")]
async fn v(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/w/{id}")]
async fn w(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/x/{id}")]
async fn x(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/y/{id}")]
async fn y(argument: web::Path<u64>) -> String {
    argument.to_string()
}

#[rate_limit(max = 10, window = "60s")]
#[get("/z/{id}")]
async fn z(argument: web::Path<u64>) -> String {
    argument.to_string()
}

pub fn main() {
    let _ = App::new()
        .service(a)
        .service(b)
        .service(c)
        .service(d)
        .service(e)
        .service(f)
        .service(g)
        .service(h)
        .service(i)
        .service(j)
        .service(k)
        .service(l)
        .service(m)
        .service(n)
        .service(o)
        .service(p)
        .service(q)
        .service(r)
        .service(s)
        .service(t)
        .service(u)
        .service(v)
        .service(w)
        .service(x)
        .service(y)
        .service(z);
}
