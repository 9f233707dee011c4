//! Certificates and handshakes.

use std::time::{Duration, Instant};

use ratelimit_core::{RateLimiter, RedisStore};
use tests::outage::{Outage, PROBE};
use tests::proxy::{Mode, Proxy};
use tests::sentinel::SERVICE;
use tests::tls::{Certificate, secured_server};

use super::{SECOND, patient};

/// The longest time that a debug build computes to connect over TLS.
const TLS_SLACK: Duration = if cfg!(debug_assertions) { Duration::from_millis(200) } else { Duration::ZERO };

#[tokio::test]
async fn limits_over_tls_and_in_plain_text_share_counts() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let builder = RedisStore::builder(&secured.url()).root_certificate_pem(secured.authority.clone());
    let builder = builder.deadline(20 * SECOND).connect_timeout(20 * SECOND);
    let limiter = RateLimiter::new(builder.build().unwrap());
    let before = PROBE.max();
    let outcome = limiter.check(&PROBE, "a").await.unwrap();
    assert!(!outcome.is_degraded());
    assert_eq!(outcome.remaining(), before - 1);
    // The same count, seen without TLS.
    let plain = patient(&secured.server.url());
    assert_eq!(plain.peek(&PROBE, "a").await.unwrap().remaining(), before - 1);
}

macro_rules! mistrusted {
    ($($test:ident, $name:literal, $certificate:expr;)+) => {
        $(#[tokio::test]
        async fn $test() {
            let Some(secured) = secured_server($certificate) else { return };
            let builder = RedisStore::builder(&secured.url()).root_certificate_pem(secured.authority.clone());
            let mut outage = Outage::with($name, builder).with_slack(TLS_SLACK);
            outage.until_noticed().await;
            outage.policies_apply().await;
            outage.lasts().await;
            assert_eq!(secured.server.query("DBSIZE"), ":0");
            secured.present(Certificate::Good);
            outage.ends_within(2 * SECOND).await;
        })+
    };
}

mistrusted! {
    a_certificate_of_an_unknown_authority_is_not_trusted, "wrong CA", Certificate::OfAStranger;
    a_certificate_that_has_expired_is_not_trusted, "expired", Certificate::Expired;
    a_certificate_of_another_host_is_not_trusted, "other host", Certificate::OfAnotherHost;
}

#[tokio::test]
async fn system_authorities_do_not_vouch_for_a_private_authority() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let mut outage = Outage::of("own CA, not given", &secured.url()).with_slack(TLS_SLACK);
    outage.until_noticed().await;
    outage.policies_apply().await;
    assert_eq!(secured.server.query("DBSIZE"), ":0");
}

#[tokio::test]
async fn a_handshake_that_stalls_is_an_outage() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let proxy = Proxy::before(secured.tls_port);
    proxy.set(Mode::Swallow);
    let url = format!("rediss://localhost:{}/", proxy.port());
    let builder = RedisStore::builder(&url).root_certificate_pem(secured.authority.clone());
    let mut outage = Outage::with("stalled handshake", builder).with_slack(TLS_SLACK);
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    proxy.set(Mode::Pass);
    outage.ends_within(2 * SECOND).await;
}

#[tokio::test]
async fn a_sentinel_with_tls_names_a_master_with_tls() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let sentinel = secured.sentinel(Certificate::Good);
    let url = format!("rediss-sentinel://localhost:{}/{SERVICE}", sentinel.tls_port);
    let builder = RedisStore::builder(&url).root_certificate_pem(secured.authority.clone());
    let builder = builder.deadline(20 * SECOND).connect_timeout(20 * SECOND);
    let limiter = RateLimiter::new(builder.build().unwrap());
    let end = Instant::now() + 60 * SECOND;
    let outcome = loop {
        match limiter.check(&PROBE, "a").await {
            Ok(outcome) => break outcome,
            // The sentinel has not seen the master yet.
            Err(error) => assert!(Instant::now() < end, "{error:?}"),
        }
        tokio::time::sleep(SECOND / 20).await;
    };
    assert_eq!(outcome.remaining(), PROBE.max() - 1);
    let plain = patient(&secured.server.url());
    assert_eq!(plain.peek(&PROBE, "a").await.unwrap().remaining(), PROBE.max() - 1);
}

#[tokio::test]
async fn a_sentinel_whose_certificate_is_of_a_stranger_names_no_master() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let sentinel = secured.sentinel(Certificate::OfAStranger);
    let url = format!("rediss-sentinel://localhost:{}/{SERVICE}", sentinel.tls_port);
    let builder = RedisStore::builder(&url).root_certificate_pem(secured.authority.clone());
    let mut outage = Outage::with("sentinel of a stranger", builder).with_slack(TLS_SLACK);
    outage.until_noticed().await;
    outage.policies_apply().await;
    assert_eq!(secured.server.query("DBSIZE"), ":0");
}
