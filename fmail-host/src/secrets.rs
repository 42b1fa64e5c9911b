//! What both sides of a TCP connection prove to each other, read from the files that the configuration names.
//!
//! Read only when somebody is about to connect or to listen: no other command needs it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};

use crate::Environment;
use crate::config::{MIN_TOKEN, TcpSettings};

/// The files are small: a line of text, a few certificates.
const MAX_BYTES: u64 = 1_000_000;

/// The PEM of a certificate and of its key.
pub struct CertificateFiles {
    /// The certificate, with those that vouch for it behind it.
    pub certificate: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

impl TcpSettings {
    /// The token that both sides have to prove, if one is configured.
    pub fn shared_token(&self, environment: &Environment) -> Result<Option<String>> {
        match (self.token.0.as_str(), self.token_file.as_str()) {
            ("", "") => Ok(None),
            (token, "") => Ok(Some(token.to_string())),
            ("", file) => token_file(file, "mail.tcp.token_file", environment).map(Some),
            _ => Err(Error::new(
                ErrorKind::InvalidConfig,
                "`mail.tcp.token` and `mail.tcp.token_file` are both set, and only one of them may",
            )
            .help("remove one of them; `fmail config show --origin` says where each comes from")),
        }
    }

    /// The certificate that the daemon shows, with its key, if one is configured.
    pub fn certificate(&self, environment: &Environment) -> Result<Option<CertificateFiles>> {
        let keys = ["mail.tcp.tls.certificate", "mail.tcp.tls.key"];
        match (self.tls.certificate.as_str(), self.tls.key.as_str()) {
            ("", "") => Ok(None),
            ("", _) | (_, "") => Err(Error::new(
                ErrorKind::InvalidConfig,
                "one of `mail.tcp.tls.certificate` and `mail.tcp.tls.key` is set without the other",
            )
            .help("set both, or none")),
            (certificate, key) => Ok(Some(CertificateFiles {
                certificate: read(&expanded(certificate, keys[0], environment)?, keys[0], Who::Anybody)?,
                key: read(&expanded(key, keys[1], environment)?, keys[1], Who::OwnerOnly)?,
            })),
        }
    }

    /// The PEM of the certificates that a client believes, if any are configured.
    pub fn authority(&self, environment: &Environment) -> Result<Option<Vec<u8>>> {
        let key = "mail.tcp.tls.authority";
        match self.tls.authority.as_str() {
            "" => Ok(None),
            file => read(&expanded(file, key, environment)?, key, Who::Anybody).map(Some),
        }
    }
}

/// The token in a file that the setting `key` names. It has to be the user's own and nobody else's to read.
pub fn token_file(file: &str, key: &str, environment: &Environment) -> Result<String> {
    token_in(&expanded(file, key, environment)?, key)
}

/// Who may be able to read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Anybody,
    OwnerOnly,
}

/// The path with the user's home in the place of `~`.
fn expanded(path: &str, key: &str, environment: &Environment) -> Result<PathBuf> {
    let Some(rest) = path.strip_prefix("~/") else { return Ok(PathBuf::from(path)) };
    match environment.var("HOME").filter(|home| home.starts_with('/')) {
        Some(home) => Ok(Path::new(home).join(rest)),
        None => Err(Error::new(ErrorKind::InvalidConfig, format!("`{key}` is {path}, and HOME names no directory"))
            .help("write the whole path")),
    }
}

fn token_in(path: &Path, key: &str) -> Result<String> {
    let bytes = read(path, key, Who::OwnerOnly)?;
    let text = String::from_utf8(bytes).map_err(|_| unusable(path, key, "it is not UTF-8 text"))?;
    let token = text.trim();
    if token.len() < MIN_TOKEN || token.contains(char::is_control) {
        let what = format!("its text has {} bytes; a token is one line of {MIN_TOKEN} bytes or more", token.len());
        return Err(unusable(path, key, &what).help("make one with `openssl rand -hex 32`"));
    }
    Ok(token.to_string())
}

/// The contents of a file. The question who may read it is put to the opened file, so that nobody can swap it in between.
fn read(path: &Path, key: &str, who: Who) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| unusable(path, key, &error.to_string());
    // Without blocking: a named pipe must not hang a command.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let mut file = File::from(opened);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(unusable(path, key, "it is not a regular file"));
    }
    let user = rustix::process::geteuid().as_raw();
    if who == Who::OwnerOnly && metadata.uid() != user {
        let what = format!("it belongs to user {}, not to us (user {user})", metadata.uid());
        return Err(unusable(path, key, &what).help("use a file of your own with mode 0600"));
    }
    let mode = metadata.mode() & 0o777;
    if who == Who::OwnerOnly && mode & 0o077 != 0 {
        let what = format!("others may use it: its mode is {mode:04o}, allowed is 0600");
        return Err(unusable(path, key, &what).help(format!("chmod 600 {}", path.display())));
    }
    let mut bytes = Vec::new();
    (&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unusable(
            path,
            key,
            &format!("it has more than {MAX_BYTES} bytes, which is the most that is read"),
        ));
    }
    Ok(bytes)
}

fn unusable(path: &Path, key: &str, what: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("`{key}` cannot be used: {what}")).context("file", path.display())
}
