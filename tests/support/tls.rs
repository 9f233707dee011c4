//! A server that speaks TLS, and a sentinel that watches it, with certificates made for the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use crate::redis::{Server, ask, binary, comes_up, free_port, is_installed, skip};
use crate::sentinel::SERVICE;

/// A server with a TLS port, and certificates that it can be given.
#[derive(Debug)]
pub struct Secured {
    pub server: Server,
    pub tls_port: u16,
    /// The authority that signed all certificates but the stranger's, in PEM.
    pub authority: String,
    /// The authority that signed the stranger's, in PEM.
    pub stranger: String,
    /// The key of all certificates, in PEM.
    pub key: String,
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
    /// For servers, not for clients.
    OfServersOnly,
    /// For the name of the host, and not for its address.
    OfName,
}

impl Certificate {
    const ALL: [Self; 6] = [
        Self::Good,
        Self::OfAStranger,
        Self::Expired,
        Self::OfAnotherHost,
        Self::OfServersOnly,
        Self::OfName,
    ];

    fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("{self:?}.pem"))
    }
}

/// Starts a server with a certificate, or says that this test is skipped.
pub fn secured_server(certificate: Certificate) -> Option<Secured> {
    secured_server_with(certificate, &[])
}

/// Starts such a server with more options.
pub fn secured_server_with(certificate: Certificate, more: &[&str]) -> Option<Secured> {
    if !is_installed() {
        return None;
    }
    let folder = tempfile::TempDir::new().unwrap().keep();
    let (authority, stranger, key) = make_certificates(&folder);
    for _ in 0..5 {
        let tls_port = free_port();
        if let Some(mut server) = Server::try_start(
            &[options(tls_port, certificate, &folder), more.iter().map(ToString::to_string).collect()]
                .concat(),
        ) {
            server.owns(folder);
            return Some(Secured { server, tls_port, authority, stranger, key });
        }
    }
    let _ = std::fs::remove_dir_all(folder);
    skip("a redis-server that speaks TLS");
    None
}

/// The options of a server with TLS on this port.
fn options(tls_port: u16, certificate: Certificate, folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    [
        "--tls-port",
        &tls_port.to_string(),
        "--tls-cert-file",
        &certificate.path(folder).display().to_string(),
        "--tls-key-file",
        &path("key.pem"),
        "--tls-ca-cert-file",
        &path("authority.pem"),
        "--tls-auth-clients",
        "no",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A sentinel with a TLS port, which reaches servers over TLS only.
#[derive(Debug)]
pub struct SecuredSentinel {
    pub tls_port: u16,
    process: Child,
}

impl Drop for SecuredSentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Secured {
    /// Starts a sentinel with this certificate, which watches the TLS port of the server.
    pub fn sentinel(&self, certificate: Certificate) -> SecuredSentinel {
        let folder = self.server.owned().unwrap();
        loop {
            let (port, tls_port) = (free_port(), free_port());
            let path = folder.join(format!("sentinel-{port}.conf"));
            let watch = format!("sentinel monitor {SERVICE} 127.0.0.1 {} 1\n", self.tls_port);
            std::fs::write(&path, format!("dir {}\n{watch}", folder.display())).unwrap();
            let mut process = Command::new(binary())
                .arg(&path)
                .args([
                    "--sentinel",
                    "--bind",
                    "127.0.0.1",
                    "--tls-replication",
                    "yes",
                    "--port",
                    &port.to_string(),
                ])
                .args(options(tls_port, certificate, folder))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            if comes_up(&mut process, port) {
                return SecuredSentinel { tls_port, process };
            }
        }
    }

    pub fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.tls_port)
    }

    /// A certificate in PEM, for a client to present.
    pub fn certificate(&self, certificate: Certificate) -> String {
        std::fs::read_to_string(certificate.path(self.server.owned().unwrap())).unwrap()
    }

    /// Has the server, or not, ask clients for a certificate of its authority, as a server does by default.
    pub fn ask_clients(&self, asks: bool) {
        self.server.must(&format!("CONFIG SET tls-auth-clients {}", if asks { "yes" } else { "no" }));
    }

    /// Makes a cluster of this one server, whose clients and bus speak TLS.
    pub fn make_cluster(&self) {
        // In parts: a server takes 64 KiB in a line.
        for first in (0..16_384).step_by(4_096) {
            let slots: Vec<String> = (first..first + 4_096).map(|slot: u32| slot.to_string()).collect();
            self.server.must(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
        }
        let is_formed = || {
            ask(self.server.port(), "CLUSTER INFO", 2)
                .is_some_and(|lines| lines[1].contains("cluster_state:ok"))
        };
        assert!(crate::within(std::time::Duration::from_secs(30), is_formed), "the cluster does not form");
    }

    /// Gives the running server another certificate.
    pub fn present(&self, certificate: Certificate) {
        let path = certificate.path(self.server.owned().unwrap());
        self.server.must(&format!("CONFIG SET tls-cert-file {}", path.display()));
    }

    /// Gives the running server another authority and a certificate of it, and ends all connections.
    pub fn change_authority(&self) {
        let path = self.server.owned().unwrap().join("stranger.pem");
        self.server.must(&format!("CONFIG SET tls-ca-cert-file {}", path.display()));
        self.present(Certificate::OfAStranger);
        self.server.must("CLIENT KILL TYPE normal SKIPME yes");
    }
}

/// Writes all certificates, for one key, and gives both authorities and that key.
fn make_certificates(folder: &Path) -> (String, String, String) {
    let authority = |file: &str| {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Other than that of certificates: OpenSSL takes one whose issuer has its own name for self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        std::fs::write(folder.join(file), &pem).unwrap();
        (pem, Issuer::new(params, key))
    };
    let ((pem, known), (other, stranger)) = (authority("authority.pem"), authority("stranger.pem"));
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    for certificate in Certificate::ALL {
        let names = match certificate {
            Certificate::OfAnotherHost => vec!["elsewhere.test".to_owned()],
            Certificate::OfName => vec!["localhost".to_owned()],
            _ => vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
        };
        let mut params = CertificateParams::new(names).unwrap();
        if let Certificate::Expired = certificate {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        if let Certificate::OfServersOnly = certificate {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }
        let issuer = if let Certificate::OfAStranger = certificate { &stranger } else { &known };
        let signed = params.signed_by(&key, issuer).unwrap();
        std::fs::write(certificate.path(folder), signed.pem()).unwrap();
    }
    (pem, other, key.serialize_pem())
}
