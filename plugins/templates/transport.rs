//! A transport over a Unix socket in the plugin's own directory: one connection for each request.
//!
//! A client writes two lines, who asks and what; the server answers with lines of a word and JSON: `answer`, or `head` and
//! then `item`s, or `error`, and closes.
use std::path::PathBuf;

use fmail_plugin::futures::stream::{self, StreamExt};
use fmail_plugin::futures::{FutureExt, future};
use fmail_plugin::serde_json as json;
use fmail_plugin::{
    Caller, Envelope, Error, ErrorKind, Host, Listening, Principal, Reply, Result, Shutdown, Transport, async_trait,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

fmail_plugin::transport! { name: "example-transport", open: Socket::open }

struct Socket(PathBuf);

impl Socket {
    async fn open(envelope: Envelope) -> Result<Self> {
        Ok(Socket(envelope.data_dir.join("socket")))
    }
}

#[async_trait]
impl Transport for Socket {
    async fn serve(&self, host: Host, mut shutdown: Shutdown) -> Result<Listening> {
        let _ = std::fs::remove_file(&self.0); // one that a killed daemon has left behind
        let listener = UnixListener::bind(&self.0).map_err(|error| Error::io("cannot listen", &error))?;
        let (endpoint, path) = (format!("unix:{}", self.0.display()), self.0.clone());
        let finished = async move {
            let (end, ended) = watch::channel(());
            let mut connections = JoinSet::new();
            loop {
                match future::select(Box::pin(listener.accept()), &mut shutdown).await {
                    future::Either::Left((Ok((peer, _)), _)) => {
                        connections.spawn(serve_one(host.clone(), peer, ended.clone()));
                    }
                    future::Either::Left((Err(error), _)) => return Err(Error::io("cannot listen", &error)),
                    future::Either::Right(_) => break,
                }
            }
            drop((listener, end)); // streams end now, and who has not asked yet; other calls are answered
            let _ = std::fs::remove_file(path);
            while connections.join_next().await.is_some() {}
            Ok(())
        };
        Ok(Listening { endpoint, finished: finished.boxed() })
    }

    async fn request(&self, caller: Caller, request: String) -> Result<Reply> {
        let unavailable = |error: std::io::Error| {
            Error::new(ErrorKind::Unavailable, format!("nobody answers on {}: {error}", self.0.display()))
        };
        let mut peer = UnixStream::connect(&self.0).await.map_err(unavailable)?;
        let asked = format!("{}\n{request}\n", json::to_string(&caller).unwrap_or_default());
        peer.write_all(asked.as_bytes()).await.map_err(unavailable)?;
        let mut lines = BufReader::new(peer).lines();
        let first = lines.next_line().await.map_err(unavailable)?.unwrap_or_default();
        let (streams, head) = (first.starts_with("head "), said(&first)?);
        let events = stream::unfold(lines, |mut lines| async {
            let line = lines.next_line().await.ok()??;
            Some((said(&line), lines))
        });
        Ok(Reply { head, events: streams.then(|| events.boxed()) })
    }
}

/// What a line of the server says.
fn said(line: &str) -> Result<String> {
    match line.split_once(' ') {
        Some(("error", error)) => {
            Err(json::from_str(error).unwrap_or_else(|_| Error::internal(format!("the server failed: {error}"))))
        }
        Some((_, body)) => Ok(body.to_string()),
        None => Err(Error::new(ErrorKind::Unavailable, "the server closed the connection without an answer")),
    }
}

/// Answers one client. What a client does wrong, or its end, concerns nobody else.
async fn serve_one(host: Host, peer: UnixStream, mut ended: watch::Receiver<()>) -> Option<()> {
    let user = peer.peer_cred().ok()?.uid(); // the kernel says who it is, whatever the client writes
    let (reading, mut writing) = peer.into_split();
    let mut lines = BufReader::new(reading).lines();
    let asking = async { Some((lines.next_line().await.ok()??, lines.next_line().await.ok()??)) };
    let (caller, request) = match future::select(Box::pin(asking), Box::pin(ended.changed())).await {
        future::Either::Left((asked, _)) => asked?,
        future::Either::Right(_) => return None,
    };
    let caller: Caller = json::from_str(&caller).ok()?;
    let caller = Caller { principal: Some(Principal::User(user)), ..caller };
    let failed = |error: &Error| format!("error {}\n", json::to_string(error).unwrap_or_default());
    let reply = match host.request(&caller, &request).await {
        Ok(reply) => reply,
        Err(error) => return writing.write_all(failed(&error).as_bytes()).await.ok(),
    };
    let word = if reply.events.is_some() { "head" } else { "answer" };
    writing.write_all(format!("{word} {}\n", reply.head).as_bytes()).await.ok()?;
    let mut events = reply.events?;
    let mut gone = future::select(Box::pin(lines.next_line()), Box::pin(ended.changed()));
    while let future::Either::Left((Some(event), _)) = future::select(events.next(), &mut gone).await {
        let line = event.map_or_else(|error| failed(&error), |event| format!("item {event}\n"));
        writing.write_all(line.as_bytes()).await.ok()?;
    }
    Some(())
}
