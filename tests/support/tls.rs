//! A server that speaks TLS, with certificates made for the test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::redis::{Server, free_port, is_installed, skip};

/// A server with a TLS port, and certificates that it can be given.
#[derive(Debug)]
pub struct Secured {
    pub server: Server,
    pub tls_port: u16,
    /// The authority that signed all certificates but the stranger's, in PEM.
    pub authority: String,
}

/// A certificate.
#[derive(Clone, Copy, Debug)]
pub enum Certificate {
    Good,
    /// Signed by an unknown authority.
    OfAStranger,
    Expired,
    /// For another host.
    OfAnotherHost,
}

impl Certificate {
    const ALL: [Self; 4] = [Self::Good, Self::OfAStranger, Self::Expired, Self::OfAnotherHost];

    fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("{self:?}.pem"))
    }
}

/// Starts a server with a certificate, or says that this test is skipped.
pub fn secured_server(certificate: Certificate) -> Option<Secured> {
    if !is_installed() {
        return None;
    }
    let folder = tempfile::TempDir::new().unwrap().keep();
    let authority = make_certificates(&folder);
    for _ in 0..5 {
        let tls_port = free_port();
        let path = |name: &str| folder.join(name).display().to_string();
        let options = [
            "--tls-port",
            &tls_port.to_string(),
            "--tls-cert-file",
            &certificate.path(&folder).display().to_string(),
            "--tls-key-file",
            &path("key.pem"),
            "--tls-ca-cert-file",
            &path("authority.pem"),
            "--tls-auth-clients",
            "no",
        ];
        if let Some(mut server) = Server::try_start(&options.map(str::to_owned)) {
            server.owns(folder);
            return Some(Secured { server, tls_port, authority });
        }
    }
    let _ = std::fs::remove_dir_all(folder);
    skip("a redis-server that speaks TLS");
    None
}

impl Secured {
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.tls_port)
    }

    /// Gives the running server another certificate.
    pub fn present(&self, certificate: Certificate) {
        let path = certificate.path(self.server.owned().unwrap());
        self.server.must(&format!("CONFIG SET tls-cert-file {}", path.display()));
    }
}

/// Writes all certificates, for one key, and gives the authority.
fn make_certificates(folder: &Path) -> String {
    let authority = || {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        (pem, Issuer::new(params, key))
    };
    let ((pem, known), (_, stranger)) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(folder.join("authority.pem"), &pem).unwrap();
    for certificate in Certificate::ALL {
        let names = match certificate {
            Certificate::OfAnotherHost => vec!["elsewhere.test".to_owned()],
            _ => vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
        };
        let mut params = CertificateParams::new(names).unwrap();
        if let Certificate::Expired = certificate {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let issuer = if let Certificate::OfAStranger = certificate { &stranger } else { &known };
        let signed = params.signed_by(&key, issuer).unwrap();
        std::fs::write(certificate.path(folder), signed.pem()).unwrap();
    }
    pem
}
