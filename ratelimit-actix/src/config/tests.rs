//! Tests of the configuration: its errors, its defaults, and the fields that it lists.

use super::*;

fn error_of(builder: RateLimitConfigBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn invalid_settings_are_rejected() {
    let builder = RateLimitConfig::builder;
    let cases = [
        (builder().ipv6_prefix(31), "32 to 128, not 31"),
        (builder().ipv6_prefix(129), "32 to 128, not 129"),
        (builder().headers([HeaderStyle::LegacyUnix, HeaderStyle::LegacyDelta]), "same fields"),
        (builder().headers([HeaderStyle::Draft06, HeaderStyle::Draft11]), "same fields"),
        (builder().headers([HeaderStyle::Draft11, HeaderStyle::Draft11]), "same fields"),
        (
            builder().trusted_proxies(["10.0.0.1"], ForwardedHeader::Single(X_FORWARDED_FOR.clone())),
            "`x-forwarded-for` is a list",
        ),
        (builder().trusted_proxies(["0.0.0.0/0"], ForwardedHeader::XForwardedFor), "every address"),
        (builder().trusted_proxies(["proxy"], ForwardedHeader::XForwardedFor), "`proxy` is not a network"),
        (builder().exempt(["10.0.0.0/8", "10.0.0/8"]), "`10.0.0/8` is not a network; expected CIDR such as"),
        (builder().exempt(["0.0.0.0/1", "128.0.0.0/1"]), "exempt networks must not cover every address"),
        (builder().body_with("text", |_| String::new()), "`text` is not a media type"),
        (builder().body_with("te xt/plain", |_| String::new()), "`te xt/plain` is not a media type"),
        (builder().body_with("text/plain\r\n", |_| String::new()), "is not a media type"),
        (builder().body_with("text/plain", |_| String::new()).body_by_accept(true), "by Accept"),
    ];
    for (builder, expected) in cases {
        let error = error_of(builder);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn one_network_needs_no_array() {
    let debug = |builder: RateLimitConfigBuilder| format!("{:?}", builder.build().unwrap());
    let one = RateLimitConfig::builder().trusted_proxies("10.0.0.0/8", ForwardedHeader::XForwardedFor);
    let several = RateLimitConfig::builder().trusted_proxies(["10.0.0.0/8"], ForwardedHeader::XForwardedFor);
    assert_eq!(debug(one.exempt("10.0.0.1".to_owned())), debug(several.exempt(vec!["10.0.0.1"])));
}

#[test]
fn the_defaults_are_valid() {
    let built = RateLimitConfig::builder().build().unwrap();
    assert_eq!(format!("{built:?}"), format!("{:?}", RateLimitConfig::default()));
}

#[test]
fn exposed_headers_are_those_that_are_sent() {
    let config = RateLimitConfig::builder().headers([HeaderStyle::LegacyDelta, HeaderStyle::Draft11]);
    let names = config.build().unwrap().exposed_headers();
    let expected = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
    ];
    assert_eq!(names, expected);
}
