//! Parameters of the path as callers: by their value, however it was spelled.

use actix_web::HttpRequest;
use percent_encoding::percent_decode_str;

use super::value::Caller;

/// The caller that a parameter of the path names; nobody when there is no such parameter.
///
/// For key functions, such as those of the [`RateLimitMiddleware`](crate::RateLimitMiddleware) middleware; the attribute's `by = path("id")`
/// and `key = "..{id}"` do the same. The value is the text that `web::Path<String>` extracts. `req.match_info().get(name)`
/// is not always: in it `/`, `%` and `+` are left as the client has encoded them, so that `a+b`, `a%2Bb` and `a%2bb` would
/// each have a count of their own although the handler takes them for one.
///
/// Text is not a number: `7`, `07` and `+7` are three callers here, but one `u64` in the handler. Count numbers by their
/// value, with `by = |id: web::Path<u64>| *id`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::{HttpRequest, web};
/// use ratelimit_actix::{Policy, RateLimitMiddleware, caller};
///
/// static TENANT: Policy = Policy::new("tenant", 1000, Duration::from_secs(60));
///
/// let limit = RateLimitMiddleware::new(TENANT.clone()).by(|req: &HttpRequest| caller::path_param(req, "tenant"));
/// let scope = web::scope("/{tenant}").wrap(limit);
/// ```
pub fn path_param(req: &HttpRequest, name: &str) -> Caller {
    req.match_info().get(name).map_or(Caller::missing(), |value| {
        // What was left encoded is decoded once more, exactly as extractors do; what is not an encoding stands as it is.
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

    /// The key of the last segment of a path as the router has matched it, and what a handler extracts of it.
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
                let (key, extracted) = matched(spelling);
                assert_eq!(extracted, value, "{spelling}");
                assert_eq!(key, value.into_caller(), "{spelling}");
            }
        }
    }

    #[test]
    fn without_the_parameter_there_is_nobody() {
        assert!(path_param(&TestRequest::default().to_http_request(), "id").is_missing());
    }

    proptest! {
        #[test]
        fn who_is_counted_is_what_the_handler_extracts(segment in "([a-c+]|%[0-9a-fA-F]{2}|%){1,12}") {
            let (key, extracted) = matched(&segment);
            prop_assert_eq!(key, extracted.into_caller());
        }
    }
}
