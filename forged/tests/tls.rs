//! TLS on TCP: who is believed, and what two sides that speak different languages are told.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Daemon, Place, Raw, output};
use fmail_api::{Context, Principal};
use fmail_transports::{Conversation, Endpoint, Failure, TcpEndpoint, TlsClient, Token};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};

const PROJECT: &str = "proj-abc123";
const TOKEN: &str = "correct-horse-battery-staple-0042";

/// An authority, and a certificate that it vouches for.
struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

fn certificates(name: &str) -> Certificates {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer: &Issuer<'_, KeyPair> = &authority;
    let certificate = CertificateParams::new(vec![name.to_string()]).unwrap().signed_by(&key, issuer).unwrap();
    Certificates { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
}

/// A certificate that vouches for itself, as `openssl req -x509` makes it.
fn self_signed() -> Certificates {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    Certificates { authority: certificate.clone(), certificate, key: key.serialize_pem() }
}

/// A daemon that shows this certificate.
fn encrypted(place: &Place, certificates: &Certificates, arguments: &[&str], vars: &[(&str, &str)]) -> Daemon {
    let mut command = place.command(&place.root(), arguments);
    command
        .env("FMAIL_TCP__TLS__CERTIFICATE", written(place, "crt", &certificates.certificate))
        .env("FMAIL_TCP__TLS__KEY", written(place, "key", &certificates.key))
        .env("FMAIL_PROJECT", PROJECT)
        .envs(vars.iter().copied());
    place.launch(command)
}

/// A file of our own.
fn written(place: &Place, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::OpenOptionsExt;
    let path = place.top.path().join(name);
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

fn greet(address: &str, authority: &str, token: Option<&str>) -> Result<String, Failure> {
    let tls = Some(TlsClient::trusting(authority.as_bytes()).unwrap());
    let address: std::net::SocketAddr = address.parse().unwrap();
    let endpoint = TcpEndpoint { token: token.map(Token::new), tls, ..address.into() };
    let mut conversation = Conversation::open(&Endpoint::Tcp(endpoint)).expect("somebody listens");
    let local = Context::local("architect".parse().unwrap());
    let context = Context { project: Some(PROJECT.into()), principal: Principal::Anonymous, ..local };
    conversation.wait(common::DEADLINE)?;
    Ok(conversation.hello(&context)?.expect("a hello").project.id)
}

#[track_caller]
fn refused(outcome: Result<String, Failure>, says: &str) {
    match outcome {
        Err(Failure::Refused(error)) => {
            assert!(error.to_string().contains(says) && error.help_text().is_some(), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn whom_the_authority_vouches_for_is_believed_under_its_own_address_only() {
    let place = Place::new();
    let ours = certificates("127.0.0.1");
    let daemon = encrypted(&place, &ours, &["--tcp=127.0.0.1:0"], &[]);
    assert_eq!(greet(&daemon.tcp(), &ours.authority, None).unwrap(), PROJECT);
    assert_eq!(greet(&daemon.tcp(), &ours.certificate, None).unwrap(), PROJECT, "pinned");
    refused(greet(&daemon.tcp(), &certificates("127.0.0.1").authority, None), "not believed");
    drop(daemon);
    let elsewhere = certificates("192.0.2.1");
    let daemon = encrypted(&place, &elsewhere, &["--tcp=127.0.0.1:0"], &[]);
    refused(greet(&daemon.tcp(), &elsewhere.authority, None), "not believed");
}

#[test]
fn a_self_signed_certificate_can_be_pinned_and_a_token_goes_inside() {
    let place = Place::new();
    let ours = self_signed();
    let vars = [("FMAIL_TCP__TOKEN", TOKEN)];
    let daemon = encrypted(&place, &ours, &["--tcp=0.0.0.0:0"], &vars);
    let address = daemon.tcp().replace("0.0.0.0", "127.0.0.1");
    assert!(daemon.log().contains("knows the token") && daemon.log().contains("are encrypted"), "{}", daemon.log());
    assert_eq!(greet(&address, &ours.authority, Some(TOKEN)).unwrap(), PROJECT);
    refused(greet(&address, &ours.authority, Some("another-token-of-thirty-two-bytes")), "another token");
    refused(greet(&address, &ours.authority, None), "wants a token");
    refused(greet(&address, &self_signed().authority, Some(TOKEN)), "not believed");
}

#[test]
fn tls_alone_lets_everyone_in_and_the_log_says_so() {
    let place = Place::new();
    let daemon = encrypted(&place, &self_signed(), &["--tcp=0.0.0.0:0"], &[]);
    let log = daemon.log();
    assert!(log.contains("everyone who can reach this address") && log.contains("not them to it"), "{log}");
}

#[test]
fn two_languages_are_told_apart_at_once() {
    let (place, start) = (Place::new(), Instant::now());
    let ours = self_signed();
    let daemon = encrypted(&place, &ours, &["--tcp=127.0.0.1:0"], &[]);
    // Plain to TLS.
    let mut plain = Raw::tcp(&daemon.tcp());
    let told = plain.refused(r#"{"cmd":"hello","project_id":"proj-abc123","agent":"a"}"#, "denied");
    assert!(told["error"]["help"].as_str().unwrap().contains("mail.tcp.tls.authority"), "{told}");
    plain.closed();
    drop(daemon);
    // TLS to plain, with a token and without.
    for vars in [&[][..], &[("FMAIL_TCP__TOKEN", TOKEN)]] {
        let mut command = place.command(&place.root(), &["--tcp=127.0.0.1:0"]);
        command.envs(vars.iter().copied());
        let daemon = place.launch(command);
        let mut bytes = Raw::tcp(&daemon.tcp());
        let told = bytes.bytes([0x16, 0x03, 0x01]).json();
        assert!(told["error"]["message"].as_str().unwrap().contains("does not speak TLS"), "{told}");
        bytes.closed();
        let begun = Instant::now();
        refused(greet(&daemon.tcp(), &ours.authority, None), "does not speak TLS");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    assert!(start.elapsed() < common::DEADLINE);
}

#[test]
fn half_a_handshake_is_cut() {
    let place = Place::new();
    let daemon = encrypted(&place, &self_signed(), &["--tcp=127.0.0.1:0"], &[]);
    let mut half = TcpStream::connect(daemon.tcp()).unwrap();
    half.set_read_timeout(Some(common::DEADLINE)).unwrap();
    half.write_all(&[0x16, 0x03, 0x01]).unwrap();
    let mut silent = TcpStream::connect(daemon.tcp()).unwrap();
    silent.set_read_timeout(Some(common::DEADLINE)).unwrap();
    for stream in [&mut half, &mut silent] {
        let read = stream.read(&mut [0; 64]);
        assert!(!matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{read:?}");
    }
}

#[test]
fn an_unusable_certificate_is_refused_by_its_key() {
    let place = Place::new();
    let (ours, other) = (self_signed(), self_signed());
    let refused = |certificate: Option<&str>, key: Option<&str>, mode: u32, says: &str| {
        use std::os::unix::fs::PermissionsExt;
        let mut command = place.command(&place.root(), &["--tcp=127.0.0.1:0"]);
        if let Some(text) = certificate {
            command.env("FMAIL_TCP__TLS__CERTIFICATE", written(&place, "crt", text));
        }
        if let Some(text) = key {
            let path = written(&place, "key", text);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            command.env("FMAIL_TCP__TLS__KEY", path);
        }
        let (code, _, stderr) = output(command);
        assert!(code == 14 && stderr.contains(says), "{code} {stderr}");
    };
    refused(Some(&ours.certificate), None, 0o600, "without the other");
    refused(Some("nothing"), Some(&ours.key), 0o600, "no certificate in it");
    refused(Some(&ours.certificate), Some("nothing"), 0o600, "no private key in it");
    refused(Some(&ours.certificate), Some(&other.key), 0o600, "does not go with its key");
    refused(Some(&ours.certificate), Some(&ours.key), 0o644, "its mode is 0644, allowed is 0600");
}
