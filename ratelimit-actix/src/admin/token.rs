//! The token against requests that another site makes in the operator's browser.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use actix_web::HttpRequest;

/// Field of requests that carry the token and are not forms.
const FIELD: &str = "x-csrf-token";

/// The token of this process: 32 hexadecimal digits. Another site cannot read it from the page, so it cannot send it.
pub(super) fn token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| {
        // The standard library's own source of random keys for hash tables.
        let half = || RandomState::new().hash_one(0_u8);
        format!("{:016x}{:016x}", half(), half())
    })
}

/// Whether a request comes from a page of this scope: with the token, and not from another site.
pub(super) fn is_same_origin(req: &HttpRequest, sent: Option<&str>) -> bool {
    let field = |name| req.headers().get(name).and_then(|value| value.to_str().ok());
    let is_own = field("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    is_own && sent.or_else(|| field(FIELD)).is_some_and(is_token)
}

/// Compares in a time that does not depend on where the texts differ.
fn is_token(sent: &str) -> bool {
    let (sent, token) = (sent.as_bytes(), token().as_bytes());
    let differences = sent.iter().zip(token).fold(0, |differences, (one, other)| differences | (one ^ other));
    sent.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_the_token_from_the_same_site_is_accepted() {
        let plain = TestRequest::default().to_http_request();
        assert!(is_same_origin(&plain, Some(token())));
        for wrong in ["", &token()[1..], &format!("{}0", token()), &"0".repeat(32)] {
            assert!(!is_same_origin(&plain, Some(wrong)), "{wrong}");
        }
        assert!(!is_same_origin(&plain, None));
        let with_field = TestRequest::default().insert_header((FIELD, token())).to_http_request();
        assert!(is_same_origin(&with_field, None));
        assert!(!is_same_origin(&with_field, Some("")), "the form's field counts");
        for (site, is_accepted) in [("same-origin", true), ("cross-site", false), ("same-site", false)] {
            let req = TestRequest::default().insert_header(("Sec-Fetch-Site", site)).to_http_request();
            assert_eq!(is_same_origin(&req, Some(token())), is_accepted, "{site}");
        }
    }
}
