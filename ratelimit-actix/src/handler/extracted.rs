//! What the closures of one request take: the request itself, or extractors, run without the body.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use actix_web::dev::Extensions;
use actix_web::{Error, FromRequest, HttpRequest};

use super::bounds::{RequestFn, extract};

/// The error of an extractor, for each limit that needs its value. The first that rejects takes it.
pub type Failure = Rc<Cell<Option<Error>>>;

fn failure(error: Error) -> Failure {
    Rc::new(Cell::new(Some(error)))
}

/// A value that may have to wait for an extractor. Boxed: functions over any extractors have one type.
pub type LaterValue<'r, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'r>>;

/// Boxes what computes a value. Its errors are those of extractors, so that `?` needs no annotation.
pub fn later<'r, T>(value: impl Future<Output = Result<T, Failure>> + 'r) -> LaterValue<'r, T> {
    Box::pin(value)
}

/// Calls a function of the application, and converts what it returns.
pub fn later_call<'r, T: 'static, V: 'static, Form: 'r, F: RequestFn<T, Form> + 'r>(
    extracted: &'r Extracted,
    function: F,
    convert: fn(T) -> V,
) -> LaterValue<'r, V> {
    Box::pin(async move { function.call(&extracted.req).await.map(convert).map_err(failure) })
}

/// One request, and what closures over it take by reference: of each type one value, or the error of its
/// extractor.
#[allow(
    missing_debug_implementations,
    reason = "extensions have none, and a request's shows what the client sent"
)]
pub struct Extracted {
    req: HttpRequest,
    /// Not in the request's own extensions, because a value may contain the request.
    shared: RefCell<Extensions>,
}

impl Extracted {
    /// Nothing is extracted yet.
    pub(crate) fn new(req: HttpRequest) -> Self {
        Self { req, shared: RefCell::default() }
    }

    pub(super) fn into_request(self) -> HttpRequest {
        self.req
    }

    /// The request, for closures over it.
    pub const fn request(&self) -> &HttpRequest {
        &self.req
    }

    /// Runs the extractors of what a closure takes by value.
    ///
    /// # Errors
    ///
    /// The error of the extractor that failed.
    pub async fn extract<A: FromRequest>(&self) -> Result<A, Failure> {
        extract::<A>(&self.req).await.map_err(|error| failure(error.into()))
    }

    /// What a closure takes by reference. Its extractor runs only the first time, also if it fails.
    ///
    /// # Errors
    ///
    /// The error of the extractor, each time.
    pub async fn share<A: FromRequest + 'static>(&self) -> Result<Rc<A>, Failure> {
        let known = self.shared.borrow().get::<Result<Rc<A>, Failure>>().cloned();
        if let Some(known) = known {
            return known;
        }
        let value = self.extract().await.map(Rc::new);
        self.shared.borrow_mut().insert(value.clone());
        value
    }
}
