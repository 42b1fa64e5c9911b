//! Who proves a named token is let in as the peer that it belongs to, and may do nothing but relay.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Client, Context, Error, ErrorKind, Host, Listening, NodeId, Principal, ProjectRef, Reply, Request, Response,
    Result, SendRequest, Shutdown, Transport, WhoRequest,
};
use fmail_transports::peer::{Believed, Fingerprint};
use fmail_transports::{Conversation, Endpoint, Failure, Keyring, TcpEndpoint, TcpTransport, TlsServer, Token};
use futures::FutureExt;
use rcgen::{CertificateParams, KeyPair};
use tokio::sync::watch;

const PROJECT: &str = "proj-test";
const PATIENCE: Duration = Duration::from_secs(30);

/// A host whose projects remember who called, and answer nothing else.
#[derive(Default)]
struct Remembering(Arc<Mutex<Vec<Principal>>>);

struct Caller(Arc<Mutex<Vec<Principal>>>);

#[async_trait]
impl Host for Remembering {
    async fn projects(&self) -> Result<Vec<String>> {
        Ok(vec![PROJECT.into()])
    }

    async fn open(&self, _: ProjectRef) -> Result<Arc<dyn Client>> {
        Ok(Arc::new(Caller(self.0.clone())))
    }
}

#[async_trait]
impl Client for Caller {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        self.0.lock().unwrap().push(context.principal.clone());
        match request {
            Request::Hello(_) => {
                let project = serde_json::json!({"id": PROJECT, "created": "2026-01-10T15:00:00Z"});
                let hello = serde_json::json!({"version": "0", "protocol": 1, "operations": [], "project": project,
                    "store_id": ""});
                Ok(Reply::new(Response::Hello(serde_json::from_value(hello).unwrap())))
            }
            Request::Digest(_) => Ok(Reply::new(Response::Digest(Default::default()))),
            _ => Err(Error::internal("nobody should get as far as here")),
        }
    }
}

/// Tokens by name. What is taken away ends at once.
#[derive(Default)]
struct Ring {
    tokens: Mutex<HashMap<String, Token>>,
    changed: watch::Sender<()>,
}

impl Ring {
    fn with(name: &str, text: &str) -> Arc<Ring> {
        let ring = Ring::default();
        ring.tokens.lock().unwrap().insert(name.into(), Token::named(name, text));
        Arc::new(ring)
    }

    fn revoke(&self, name: &str) {
        self.tokens.lock().unwrap().remove(name);
        self.changed.send_replace(());
    }
}

#[async_trait]
impl Keyring for Ring {
    async fn token(&self, key: &str, project: &str) -> Result<Token> {
        let known = self.tokens.lock().unwrap().get(key).filter(|_| project == PROJECT).cloned();
        known.ok_or_else(|| Error::new(ErrorKind::Denied, "no such pairing"))
    }

    async fn proved(&self, key: &str, host: Option<&str>, _: Option<NodeId>) -> Result<String> {
        Ok(format!("{key} of {}", host.unwrap_or("nobody")))
    }

    async fn ended(&self, key: &str) {
        let mut changed = self.changed.subscribe();
        while self.tokens.lock().unwrap().contains_key(key) && changed.changed().await.is_ok() {}
    }
}

struct Served {
    address: SocketAddr,
    callers: Arc<Mutex<Vec<Principal>>>,
    runtime: tokio::runtime::Runtime,
}

fn serve(transport: impl FnOnce(TcpTransport) -> TcpTransport) -> Served {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let host = Arc::new(Remembering::default());
    let callers = host.0.clone();
    let transport = transport(TcpTransport::new("127.0.0.1:0".parse().unwrap()));
    let forever: Shutdown = std::future::pending().boxed();
    let Listening { endpoint, finished } = runtime.block_on(transport.serve(host, forever)).unwrap();
    runtime.spawn(finished);
    Served { address: endpoint.trim_start_matches("tcp://").parse().unwrap(), callers, runtime }
}

fn context(project: &str) -> Context {
    let local = Context::local("relay".parse().unwrap());
    Context { project: Some(project.into()), host: Some("host-b".into()), principal: Principal::Anonymous, ..local }
}

fn greeted(endpoint: TcpEndpoint, project: &str) -> Result<Conversation, Failure> {
    let mut conversation = Conversation::open(&Endpoint::Tcp(endpoint)).expect("somebody listens");
    conversation.wait(PATIENCE)?;
    conversation.hello(&context(project))?;
    Ok(conversation)
}

fn refused(failure: Result<Conversation, Failure>) -> Error {
    match failure {
        Err(Failure::Refused(error)) => error,
        Err(Failure::Lost(error)) => panic!("lost: {error}"),
        Ok(_) => panic!("let in"),
    }
}

fn with(served: &Served, token: Token) -> TcpEndpoint {
    TcpEndpoint { token: Some(token), ..served.address.into() }
}

#[test]
fn who_proves_a_key_is_that_peer_and_may_only_relay() {
    let ring = Ring::with("one", "secret-1");
    let served = serve(|tcp| tcp.admitting(ring.clone()));
    let mut peer = greeted(with(&served, Token::named("one", "secret-1")), PROJECT).unwrap();
    peer.ask(&context(PROJECT), &Request::Digest(Default::default())).unwrap();
    let expected = Principal::Peer("one of host-b".into());
    assert_eq!(*served.callers.lock().unwrap(), [expected.clone(), expected]);
    for denied in [
        Request::Send(Box::new(SendRequest::new("task".parse().unwrap(), "in another's name"))),
        Request::Who(WhoRequest::default()),
        Request::Topics,
        Request::RelayStatus,
    ] {
        let Err(Failure::Refused(error)) = peer.ask(&context(PROJECT), &denied) else { panic!("{denied:?}") };
        assert_eq!(error.kind(), ErrorKind::Denied, "{denied:?}");
    }
    let Err(Failure::Refused(other)) = peer.ask(&context("proj-other"), &Request::Digest(Default::default())) else {
        panic!("another project was opened")
    };
    assert_eq!(other.kind(), ErrorKind::Denied);
    assert_eq!(served.callers.lock().unwrap().len(), 2, "what is denied gets nowhere");
}

#[test]
fn nobody_gets_in_with_a_wrong_secret_a_wrong_name_another_project_or_nothing() {
    let ring = Ring::with("one", "secret-1");
    let served = serve(|tcp| tcp.admitting(ring.clone()));
    let wrong = refused(greeted(with(&served, Token::named("one", "secret-2")), PROJECT));
    assert!(wrong.to_string().contains("another token"), "the daemon proves first: {wrong}");
    assert!(wrong.help_text().unwrap().contains("fmail relay join"), "{wrong:?}");
    let unknown = refused(greeted(with(&served, Token::named("two", "secret-1")), PROJECT));
    assert!(unknown.to_string().contains("no such pairing"), "{unknown}");
    let elsewhere = refused(greeted(with(&served, Token::named("one", "secret-1")), "proj-other"));
    assert!(elsewhere.to_string().contains("no such pairing"), "{elsewhere}");
    for endpoint in [served.address.into(), with(&served, Token::new("secret-1"))] {
        let nothing = refused(greeted(endpoint, PROJECT));
        assert_eq!(nothing.kind(), ErrorKind::Denied);
        assert!(nothing.to_string().contains("paired"), "{nothing}");
    }
    assert!(served.callers.lock().unwrap().is_empty());
}

#[test]
fn beside_a_token_a_key_opens_too() {
    let ring = Ring::with("one", "secret-1");
    let key = || Token::named("one", "secret-1");
    let peer = Principal::Peer("one of host-b".into());
    let shared = serve(|tcp| tcp.proving(Some(Token::new("shared"))).admitting(ring.clone()));
    greeted(with(&shared, Token::new("shared")), PROJECT).unwrap();
    greeted(with(&shared, key()), PROJECT).unwrap();
    assert_eq!(*shared.callers.lock().unwrap(), [Principal::Token("tcp".into()), peer]);
    assert_eq!(refused(greeted(shared.address.into(), PROJECT)).kind(), ErrorKind::Denied);

    let without = serve(|tcp| tcp.proving(Some(Token::new("shared"))));
    assert!(refused(greeted(with(&without, key()), PROJECT)).to_string().contains("paired with no other host"));
}

#[test]
fn a_key_that_is_withdrawn_cuts_the_connection() {
    let ring = Ring::with("one", "secret-1");
    let served = serve(|tcp| tcp.admitting(ring.clone()));
    let mut peer = greeted(with(&served, Token::named("one", "secret-1")), PROJECT).unwrap();
    ring.revoke("one");
    // Whatever is asked now: the line that says so is the last one.
    peer.listen().unwrap();
    match peer.next_event() {
        Err(Failure::Refused(error)) => assert!(error.to_string().contains("revoked"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(peer.next_event(), Err(Failure::Lost(_))));
    drop(served.runtime);
}

#[test]
fn a_certificate_that_is_pinned_is_believed_and_no_other() {
    let (certificate, key) = certificate();
    let ring = Ring::with("one", "secret-1");
    let shown = TlsServer::new(certificate.as_bytes(), key.as_bytes()).unwrap();
    let served = serve(|tcp| tcp.admitting(ring.clone()).showing(Some(shown)));
    let pinned = |fingerprint| TcpEndpoint {
        token: Some(Token::named("one", "secret-1")),
        tls: Some(Believed::Pinned(fingerprint).client().unwrap()),
        ..served.address.into()
    };
    greeted(pinned(Fingerprint::of_pem(certificate.as_bytes()).unwrap()), PROJECT).unwrap();
    let other = refused(greeted(pinned(Fingerprint([7; 32])), PROJECT));
    assert!(other.to_string().contains("another certificate"), "{other}");
    assert!(other.help_text().unwrap().contains("pair the hosts again"), "{other:?}");
}

fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}
