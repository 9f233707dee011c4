//! Path parameters as callers: by their value, in every spelling.

use actix_web::HttpRequest;
use percent_encoding::percent_decode_str;

use super::value::Caller;

/// The value of a path parameter as the caller. No caller if there is no such parameter.
///
/// For functions that find a caller, such as those of [`Limit::by`](crate::Limit::by). The attribute's `by = path("id")` and
/// `key = "..{id}"` do the same. The value is the text that `web::Path<String>` extracts. `req.match_info().get(name)` may
/// differ: it leaves `/`, `%` and `+` as the client encoded them. `a+b`, `a%2Bb` and `a%2bb` would have a count each, although
/// the handler extracts the same value.
///
/// Text is not a number: `7`, `07` and `+7` are three callers here, but one `u64` in the handler. Count numbers by value, with
/// `by = |id: web::Path<u64>| *id`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::{HttpRequest, web};
/// use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, caller};
///
/// static TENANT: Policy = Policy::new("tenant", 1000, Duration::from_secs(60));
///
/// let limit = Limit::new(&TENANT).by(|req: &HttpRequest| caller::path_param(req, "tenant"));
/// let scope = web::scope("/{tenant}").wrap(RateLimitMiddleware::new(limit));
/// ```
pub fn path_param(req: &HttpRequest, name: &str) -> Caller {
    req.match_info().get(name).map_or(Caller::missing(), |value| {
        // Decodes what the router left encoded, exactly as extractors do. Invalid encodings stay as they are.
        Caller::text(percent_decode_str(value).decode_utf8_lossy().as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest as _;
    use actix_web::dev::{Payload, ResourceDef, Url};
    use actix_web::test::TestRequest;
    use actix_web::web::Path;
    use proptest::prelude::*;

    use super::super::into_caller::IntoCaller as _;
    use super::*;

    /// The caller from the last segment of a path as the router matches it, and the value that a handler extracts.
    fn matched(segment: &str) -> (Caller, String) {
        let uri = format!("/x/{segment}").parse().unwrap();
        let mut path = actix_web::dev::Path::new(Url::new(uri));
        assert!(ResourceDef::new("/x/{id}").capture_match_info(&mut path), "{segment}");
        let mut request = TestRequest::default();
        for (name, value) in path.iter() {
            request = request.param(name.to_owned(), value.to_owned());
        }
        let request = request.to_http_request();
        let extracted = Path::<String>::from_request(&request, &mut Payload::None).into_inner().unwrap();
        (path_param(&request, "id"), extracted.into_inner())
    }

    #[test]
    fn a_value_is_one_caller_in_every_spelling() {
        let cases: [(&[&str], &str); 6] = [
            (&["a", "%61"], "a"),
            (&["a+b", "a%2Bb", "a%2bb", "%61+b"], "a+b"),
            (&["a%2Fb", "a%2fb", "%61%2fb"], "a/b"),
            (&["100%25", "100%"], "100%"),
            (&["%2541", "%25%34%31"], "%41"),
            (&["%ff", "%FE", "%%46F"], "\u{fffd}"),
        ];
        for (spellings, value) in cases {
            for spelling in spellings {
                let (caller, extracted) = matched(spelling);
                assert_eq!(extracted, value, "{spelling}");
                assert_eq!(caller, value.into_caller(), "{spelling}");
            }
        }
    }

    #[test]
    fn without_the_parameter_there_is_no_caller() {
        assert!(path_param(&TestRequest::default().to_http_request(), "id").partition().is_none());
    }

    proptest! {
        #[test]
        fn the_caller_is_the_value_that_the_handler_extracts(segment in "([a-c+]|%[0-9a-fA-F]{2}|%){1,12}") {
            let (caller, extracted) = matched(&segment);
            prop_assert_eq!(caller, extracted.into_caller());
        }
    }
}
