//! What the closures of one request take by reference: of each type one value, or the error of its extractor.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use actix_web::dev::Extensions;
use actix_web::{Error, FromRequest, HttpRequest};

use super::bounds::extract;

/// The error of an extractor, for each limit that needs its value. The first that rejects takes it.
pub(super) type Failure = Rc<Cell<Option<Error>>>;

pub(super) fn failure(error: Error) -> Failure {
    Rc::new(Cell::new(Some(error)))
}

/// The values so far. They are not in the request's own extensions: a value may hold the request.
#[derive(Default)]
pub(super) struct Extracted(RefCell<Extensions>);

impl Extracted {
    /// The value of the type `A`. Its extractor runs only the first time, also if it fails.
    pub(super) async fn get<A: FromRequest + 'static>(&self, req: &HttpRequest) -> Result<Rc<A>, Failure> {
        let known = self.0.borrow().get::<Result<Rc<A>, Failure>>().cloned();
        if let Some(known) = known {
            return known;
        }
        let value = extract(req).await.map(Rc::new).map_err(failure);
        self.0.borrow_mut().insert(value.clone());
        value
    }
}
