//! Functions that choose something for a request: over the request or over extractors, sync or async.

use std::future::Future;

use actix_web::dev::Payload;
use actix_web::{Error, FromRequest, HttpRequest};

/// A function that chooses a `T` for each request. `By` tells its forms apart, and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot choose a `{T}` for a request",
    label = "not a function over the request that returns `{T}`",
    note = "it is a `fn(&HttpRequest) -> {T}`, or takes up to eight extractors by value that do not read the body, such as `web::Data<_>` or `HttpRequest`; both may be async"
)]
pub trait Source<T, By> {
    /// Asks it about one request.
    fn choose(&self, req: &HttpRequest) -> impl Future<Output = Result<T, Error>>;
}

/// Runs extractors that see the request without its body.
pub(crate) async fn extract<A: FromRequest>(req: &HttpRequest) -> Result<A, Error> {
    A::from_request(req, &mut Payload::None).await.map_err(Into::into)
}

/// Over the request.
#[derive(Debug)]
pub struct OfRequest;

impl<T, F: Fn(&HttpRequest) -> T> Source<T, OfRequest> for F {
    async fn choose(&self, req: &HttpRequest) -> Result<T, Error> {
        Ok(self(req))
    }
}

/// Over the request, async.
#[derive(Debug)]
pub struct OfRequestAsync;

impl<T: 'static, F: AsyncFn(&HttpRequest) -> T> Source<T, OfRequestAsync> for F {
    async fn choose(&self, req: &HttpRequest) -> Result<T, Error> {
        Ok(self(req).await)
    }
}

/// Over extractors.
#[derive(Debug)]
pub struct OfExtractors<A>(A);

/// Over extractors, async.
#[derive(Debug)]
pub struct OfExtractorsAsync<A>(A);

macro_rules! extractors {
    ($($name:ident)*) => {
        impl<T, F, $($name: FromRequest + 'static),*> Source<T, OfExtractors<($($name,)*)>> for F
        where
            F: Fn($($name),*) -> T,
        {
            async fn choose(&self, req: &HttpRequest) -> Result<T, Error> {
                #[allow(non_snake_case, reason = "the values go by the names of their types")]
                let ($($name,)*) = extract::<($($name,)*)>(req).await?;
                Ok(self($($name),*))
            }
        }

        impl<T, F, $($name: FromRequest + 'static),*> Source<T, OfExtractorsAsync<($($name,)*)>> for F
        where
            F: AsyncFn($($name),*) -> T,
        {
            async fn choose(&self, req: &HttpRequest) -> Result<T, Error> {
                #[allow(non_snake_case, reason = "the values go by the names of their types")]
                let ($($name,)*) = extract::<($($name,)*)>(req).await?;
                Ok(self($($name),*).await)
            }
        }
    };
}

#[allow(
    clippy::ignored_unit_patterns,
    clippy::let_unit_value,
    reason = "one form for every number of extractors, none as well"
)]
mod arities {
    use super::{Error, FromRequest, HttpRequest, OfExtractors, OfExtractorsAsync, Source, extract};

    extractors!();
    extractors!(A);
    extractors!(A B);
    extractors!(A B C);
    extractors!(A B C D);
    extractors!(A B C D E);
    extractors!(A B C D E G);
    extractors!(A B C D E G H);
    extractors!(A B C D E G H I);
}
