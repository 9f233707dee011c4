//! A service whose rustls has its default provider, beside limits in a Redis over TLS. Alone in its process,
//! which has one provider.

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;

#[test]
fn the_provider_of_a_service_stays_its_own_and_needs_no_choice() {
    let _limiter = rl::RateLimiter::redis("rediss://localhost:1/").expect("a valid URL");
    assert!(CryptoProvider::get_default().is_none(), "the limiter has installed a provider");
    // Panics if rustls cannot choose, as when two providers are compiled in.
    let _ = ServerConfig::builder();
}
