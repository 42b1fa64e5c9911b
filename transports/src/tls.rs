//! TLS for TCP: the daemon's certificate, and what a client believes.
//!
//! TLS 1.3 only, with ring, which builds with a Rust toolchain and a C compiler alone. The version is named and not left to
//! the features of rustls: another crate of the same program may switch on an older one.

use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, PeerMisbehaved, RootCertStore, ServerConfig, SignatureScheme,
};
use sha2::{Digest, Sha256};

use crate::peer::Fingerprint;

/// The certificate that a daemon shows, with its key.
#[derive(Clone)]
pub struct TlsServer(pub(crate) Arc<ServerConfig>);

impl TlsServer {
    /// A certificate (with those that vouch for it behind it) and its key, both as PEM.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<TlsServer> {
        let chain = certificates(certificate).map_err(|why| unusable("mail.tcp.tls.certificate", &why))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| unusable("mail.tcp.tls.key", &format!("there is no private key in it: {error}")))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable("mail.tcp.tls.certificate", &format!("it does not go with its key: {error}")))?;
        // Clients that live for milliseconds resume nothing.
        config.send_tls13_tickets = 0;
        Ok(TlsServer(Arc::new(config)))
    }
}

/// Whom a client believes.
#[derive(Clone)]
pub struct TlsClient(pub(crate) Arc<ClientConfig>);

impl TlsClient {
    /// Believes the certificates in this PEM, and those that they vouch for.
    pub fn trusting(authority: &[u8]) -> Result<TlsClient> {
        let wrong = |why: String| unusable("mail.tcp.tls.authority", &why);
        let provider = Arc::new(ring::default_provider());
        let pinned = certificates(authority).map_err(wrong)?;
        let mut roots = RootCertStore::empty();
        for certificate in &pinned {
            roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
        }
        let vouched = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let verifier = Arc::new(Verifier { believes: Belief::Vouched { pinned, vouched }, provider: provider.clone() });
        TlsClient::verifying(verifier, provider).map_err(|error| wrong(error.to_string()))
    }

    /// Believes the certificate with this fingerprint and no other, whatever names and dates are in it.
    pub fn pinning(fingerprint: Fingerprint) -> Result<TlsClient> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Verifier { believes: Belief::Pinned(fingerprint), provider: provider.clone() });
        TlsClient::verifying(verifier, provider)
            .map_err(|error| Error::internal(format!("TLS cannot be configured: {error}")))
    }

    fn verifying(
        verifier: Arc<dyn ServerCertVerifier>,
        provider: Arc<CryptoProvider>,
    ) -> Result<TlsClient, rustls::Error> {
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(TlsClient(Arc::new(config)))
    }
}

impl Fingerprint {
    /// Of the first certificate in this PEM: the one that a daemon shows.
    pub fn of_pem(pem: &[u8]) -> Result<Fingerprint> {
        let found = certificates(pem).map_err(|why| unusable("mail.tcp.tls.certificate", &why))?;
        Ok(Fingerprint::of(&found[0]))
    }

    fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it".into()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("it is not PEM: {error}")),
    }
}

fn unusable(key: &str, why: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("`{key}` cannot be used: {why}"))
}

/// Which certificates are believed.
#[derive(Debug)]
enum Belief {
    /// One that stands in the authority's file itself, whatever names and dates are in it, as ssh accepts a known key; any
    /// other one has to be vouched for by one of them and to name the address. The usual check alone refuses the
    /// self-signed certificates that most tools make, because they call themselves an authority.
    Vouched { pinned: Vec<CertificateDer<'static>>, vouched: Arc<WebPkiServerVerifier> },
    /// One alone. That the other side has its key is proved by the signature of the handshake.
    Pinned(Fingerprint),
}

#[derive(Debug)]
struct Verifier {
    believes: Belief,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.believes {
            Belief::Vouched { pinned, vouched } if !pinned.contains(end_entity) => {
                vouched.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Belief::Pinned(fingerprint) if *fingerprint != Fingerprint::of(end_entity) => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            Belief::Vouched { .. } | Belief::Pinned(_) => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The same for who dials another host: a connection that is lost in the handshake is lost like any other.
pub(crate) fn handshake_problem(address: &str, error: std::io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(known) => handshake_error(address, known),
        None => Error::new(ErrorKind::Unavailable, format!("{address} was lost in the TLS handshake: {error}")),
    }
}

/// Why a handshake failed, for who configured it.
pub(crate) fn handshake_error(address: impl std::fmt::Display, error: &rustls::Error) -> Error {
    let (what, help) = match error {
        rustls::Error::InvalidMessage(_) => (
            "does not speak TLS".to_string(),
            "give forged mail.tcp.tls.certificate and mail.tcp.tls.key, or remove mail.tcp.tls.authority here",
        ),
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => (
            "shows another certificate than the one that the invitation names".to_string(),
            "either somebody else answers there, or that host has a new certificate: then pair the hosts again",
        ),
        rustls::Error::InvalidCertificate(why) => (
            format!("shows a certificate that is not believed: {why}"),
            "set mail.tcp.tls.authority to the daemon's certificate, or to the one that vouches for it",
        ),
        other => (format!("fails the TLS handshake: {other}"), "compare mail.tcp.tls on both sides"),
    };
    Error::new(ErrorKind::Denied, format!("the daemon on {address} {what}")).help(help)
}
