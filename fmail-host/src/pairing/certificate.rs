//! The certificate by which other hosts recognise this one: made by itself, and pinned by those whom it invites.

use std::path::Path;

use fmail_api::{Error, ErrorKind, Result};
use fmail_transports::peer::Fingerprint;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::files;
use crate::CertificateFiles;

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// The fingerprint of this host's certificate, which is made when there is none.
pub fn fingerprint(directory: &Path, host: &str) -> Result<Fingerprint> {
    let files = match read(directory)? {
        Some(files) => files,
        None => make(directory, host)?,
    };
    Fingerprint::of_pem(&files.certificate)
}

/// This host's certificate, if it has one.
pub fn read(directory: &Path) -> Result<Option<CertificateFiles>> {
    let found = |name: &str| files::read(&directory.join(name));
    match (found(CERTIFICATE)?, found(KEY)?) {
        (Some(certificate), Some(key)) => {
            Ok(Some(CertificateFiles { certificate: certificate.into_bytes(), key: key.into_bytes() }))
        }
        (None, None) => Ok(None),
        _ => Err(Error::new(ErrorKind::InvalidConfig, "of this host's certificate and its key only one is there")
            .context("directory", directory.display())
            .help(format!("remove {CERTIFICATE} and {KEY} there, and pair the hosts again"))),
    }
}

/// It says whose it is, for people; whom to believe is told by the fingerprint alone.
fn make(directory: &Path, host: &str) -> Result<CertificateFiles> {
    let failed = |error: rcgen::Error| Error::internal(format!("no certificate could be made: {error}"));
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, format!("fmail on {host}"));
    params.distinguished_name = name;
    let certificate = params.self_signed(&key).map_err(failed)?.pem();
    let key = key.serialize_pem();
    files::write(&directory.join(KEY), &key)?;
    files::write(&directory.join(CERTIFICATE), &certificate)?;
    Ok(CertificateFiles { certificate: certificate.into_bytes(), key: key.into_bytes() })
}
