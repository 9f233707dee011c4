//! Certificates and handshakes.

use std::fs;
use std::time::{Duration, Instant};

use ratelimit_core::{RateLimiter, RedisStore, RedisStoreBuilder, StoreError};
use tests::log::Log;
use tests::outage::{Outage, PROBE};
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::sentinel::SERVICE;
use tests::tls::{Certificate, Secured, secured_server, secured_server_with};

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
    let outcome = first_outcome(&limiter).await;
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

/// The first decision by the store; a sentinel has not seen the master at once.
async fn first_outcome(limiter: &RateLimiter) -> ratelimit_core::Outcome {
    let end = Instant::now() + 60 * SECOND;
    loop {
        match limiter.check(&PROBE, "a").await {
            Ok(outcome) => return outcome,
            Err(error) => assert!(Instant::now() < end, "{error:?}"),
        }
        tokio::time::sleep(SECOND / 20).await;
    }
}

/// A store at this URL that presents a good certificate.
fn with_certificate(secured: &Secured, url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url)
        .root_certificate_pem(secured.authority.clone())
        .client_certificate_pem(secured.certificate(Certificate::Good), secured.key.clone())
        .deadline(20 * SECOND)
        .connect_timeout(20 * SECOND)
}

#[tokio::test]
async fn a_server_that_asks_clients_for_a_certificate_is_shown_it() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    secured.ask_clients(true);
    let limiter = RateLimiter::new(with_certificate(&secured, &secured.url()).build().unwrap());
    assert_eq!(first_outcome(&limiter).await.remaining(), PROBE.max() - 1);
}

#[tokio::test]
async fn a_server_that_asks_clients_for_a_certificate_is_out_without_it() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    secured.ask_clients(true);
    let builder = RedisStore::builder(&secured.url()).root_certificate_pem(secured.authority.clone());
    let mut outage = Outage::with("no client certificate", builder).with_slack(TLS_SLACK);
    outage.until_noticed().await;
    outage.policies_apply().await;
    secured.ask_clients(false);
    outage.ends_within(2 * SECOND).await;
}

#[tokio::test]
async fn a_cluster_that_asks_clients_for_a_certificate_is_shown_it() {
    let options = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--tls-cluster", "yes"];
    let Some(secured) = secured_server_with(Certificate::Good, &options) else { return };
    secured.make_cluster();
    secured.ask_clients(true);
    let url = format!("rediss-cluster://localhost:{}", secured.tls_port);
    let limiter = RateLimiter::new(with_certificate(&secured, &url).build().unwrap());
    assert_eq!(first_outcome(&limiter).await.remaining(), PROBE.max() - 1);
}

#[tokio::test]
async fn a_sentinel_and_its_master_that_ask_clients_for_a_certificate_are_shown_it() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let sentinel = secured.sentinel(Certificate::Good);
    secured.ask_clients(true);
    let url = format!("rediss-sentinel://localhost:{}/{SERVICE}", sentinel.tls_port);
    let limiter = RateLimiter::new(with_certificate(&secured, &url).build().unwrap());
    assert_eq!(first_outcome(&limiter).await.remaining(), PROBE.max() - 1);
}

#[test]
fn a_certificate_that_cannot_be_used_is_an_error_that_repeats_nothing_of_it() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let other = secured_server(Certificate::Good).unwrap();
    let (good, key) = (secured.certificate(Certificate::Good), secured.key.clone());
    let refusal = |chain: &str, key: &str| {
        let builder = RedisStore::builder("rediss://localhost/").client_certificate_pem(chain, key);
        builder.build().unwrap_err().to_string()
    };
    let truncated = good.replace("-----END CERTIFICATE-----", "");
    for (chain, key, problem) in [
        ("", key.as_str(), "first the certificates"),
        (&truncated, &key, "first the certificates"),
        (&key, &key, "first the certificates"),
        (&good, "s3cret", "second the private key"),
        (&good, &good, "second the private key"),
        (&good, &other.key, "the private key of the first certificate"),
    ] {
        let error = refusal(chain, key);
        assert!(
            error.starts_with("`client_certificate_pem` must be given ") && error.contains(problem),
            "{error}"
        );
        assert!(!error.contains("s3cret") && !error.contains('\n'), "{error}");
    }
    let rootless = RedisStore::builder("rediss://localhost/").root_certificate_pem("s3cret").build();
    let error = rootless.unwrap_err().to_string();
    assert_eq!(error, "`root_certificate_pem` must be certificates in PEM: `-----BEGIN CERTIFICATE-----`");
}

/// The remedy that the first mistake of the set-up names.
async fn remedy(builder: RedisStoreBuilder) -> &'static str {
    let limiter = RateLimiter::new(builder.deadline(SECOND).connect_timeout(20 * SECOND).build().unwrap());
    let end = Instant::now() + 60 * SECOND;
    loop {
        match limiter.check(&PROBE, "a").await {
            Err(StoreError::Misconfigured { remedy, .. }) => return remedy,
            other => assert!(Instant::now() < end, "{other:?}"),
        }
        tokio::time::sleep(SECOND / 50).await;
    }
}

#[tokio::test]
async fn mistakes_of_certificates_are_mistakes_of_the_set_up_with_a_remedy() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        secured.server.must(&format!("CONFIG SET tls-protocols {protocol}"));
        let trusting = || RedisStore::builder(&secured.url()).root_certificate_pem(secured.authority.clone());
        for server in [Certificate::OfAStranger, Certificate::Expired, Certificate::OfAnotherHost] {
            secured.present(server);
            let told = remedy(trusting()).await;
            assert!(told.starts_with("its certificate is not trusted; "), "{protocol}, {server:?}: {told}");
        }
        secured.present(Certificate::Good);
        secured.ask_clients(true);
        let presented =
            [Certificate::OfAStranger, Certificate::Expired, Certificate::OfServersOnly].map(Some);
        for client in [&[None], &presented[..]].concat() {
            let mut builder = trusting();
            if let Some(client) = client {
                builder = builder.client_certificate_pem(secured.certificate(client), secured.key.clone());
            }
            let told = remedy(builder).await;
            assert!(told.contains("give one that is valid, for clients"), "{protocol}, {client:?}: {told}");
        }
        secured.ask_clients(false);
    }
}

/// Files of an authority and of the client, in a folder, and a store that reads them.
struct Files(tempfile::TempDir);

impl Files {
    fn of(secured: &Secured) -> Self {
        let files = Self(tempfile::TempDir::new().unwrap());
        files.write("key", &secured.key);
        files.write("root", &secured.authority);
        files.write("chain", &secured.certificate(Certificate::Good));
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn store(&self, url: &str) -> RedisStoreBuilder {
        let path = |name| self.0.path().join(name);
        RedisStore::builder(url)
            .root_certificate_file(path("root"))
            .client_certificate_files(path("chain"), path("key"))
            .deadline(SECOND)
            .connect_timeout(20 * SECOND)
    }
}

async fn until_out(limiter: &RateLimiter) {
    let end = Instant::now() + 60 * SECOND;
    while limiter.check(&PROBE, "a").await.is_ok() {
        assert!(Instant::now() < end, "connections go on");
    }
}

#[tokio::test]
async fn certificates_that_are_replaced_need_no_restart() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    secured.ask_clients(true);
    let files = Files::of(&secured);
    let limiter = RateLimiter::new(files.store(&secured.url()).build().unwrap());
    let _ = first_outcome(&limiter).await;
    secured.change_authority();
    until_out(&limiter).await;
    files.write("root", &secured.stranger);
    files.write("chain", &secured.certificate(Certificate::OfAStranger));
    let _ = first_outcome(&limiter).await;
}

#[test]
fn a_mistake_in_a_file_of_certificates_keeps_the_last_good_ones_and_warns() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    drop(secured);
    in_own_process(|| {
        let log = Log::of_process();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let secured = secured_server(Certificate::Good).unwrap();
            secured.ask_clients(true);
            let files = Files::of(&secured);
            let limiter = RateLimiter::new(files.store(&secured.url()).build().unwrap());
            let _ = first_outcome(&limiter).await;
            files.write("root", "s3cret");
            fs::remove_file(files.0.path().join("chain")).unwrap();
            for _ in 0..2 {
                secured.server.must("CLIENT KILL TYPE normal SKIPME yes");
                until_connected_again(&limiter).await;
            }
            let kept: Vec<_> = log.at(tracing::Level::WARN);
            let kept: Vec<_> = kept.iter().filter(|line| line.contains("the last good one")).collect();
            assert_eq!(kept.len(), 2, "once for each kind: {kept:?}");
            assert!(kept[0].contains("`root_certificate_file` must be certificates in PEM"), "{kept:?}");
            assert!(kept[1].contains("cannot read `") && kept[1].contains("chain"), "{kept:?}");
            assert!(!format!("{kept:?}").contains("s3cret"), "{kept:?}");
        });
    });
}

/// Waits for the store's next connection.
async fn until_connected_again(limiter: &RateLimiter) {
    let connections = || limiter.store_status().connection.unwrap().connections;
    let (before, end) = (connections(), Instant::now() + 60 * SECOND);
    while connections() == before || limiter.check(&PROBE, "a").await.is_err() {
        assert!(Instant::now() < end, "no other connection");
        tokio::time::sleep(SECOND / 50).await;
    }
}

#[test]
fn a_file_of_certificates_that_cannot_be_used_is_an_error_of_the_builder() {
    let folder = tempfile::TempDir::new().unwrap();
    let (missing, nonsense) = (folder.path().join("missing"), folder.path().join("nonsense"));
    fs::write(&nonsense, "s3cret").unwrap();
    let builder = || RedisStore::builder("rediss://localhost/");
    let error = |builder: RedisStoreBuilder| format!("{:?}", builder.build().unwrap_err());
    let cannot = format!("cannot read `{}`: ", missing.display());
    for builder in
        [builder().root_certificate_file(&missing), builder().client_certificate_files(&missing, &nonsense)]
    {
        let error = error(builder);
        assert!(error.starts_with(&cannot), "{error}");
    }
    let error_of_root = error(builder().root_certificate_file(&nonsense));
    assert!(error_of_root.starts_with("`root_certificate_file` must be certificates"), "{error_of_root}");
    let error_of_client = error(builder().client_certificate_files(&nonsense, &nonsense));
    assert!(
        error_of_client.starts_with("`client_certificate_files` must be given first"),
        "{error_of_client}"
    );
}
