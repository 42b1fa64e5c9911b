//! One connection: requests in, answers and events out.

use std::sync::Arc;

use ::tokio::io::{AsyncReadExt, AsyncWriteExt};
use ::tokio::net::TcpStream;
use fmail_plugin::futures::stream::{SplitSink, SplitStream};
use fmail_plugin::futures::{SinkExt, StreamExt};
use fmail_plugin::tokio::sync::{Semaphore, mpsc, watch};
use fmail_plugin::tokio::task::JoinSet;
use fmail_plugin::tokio::time::{Instant, sleep_until, timeout};
use fmail_plugin::{Caller, Error, ErrorKind, Host, Principal, refusal, tokio, tracing};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::config::{Config, PARTING, PATIENCE, PING_AFTER};

/// So many messages may wait to be written; whoever makes more waits.
const WAITING: usize = 16;

/// A peer that was let in.
pub struct Connection {
    writer: SplitSink<WebSocketStream<TcpStream>, Message>,
    reader: SplitStream<WebSocketStream<TcpStream>>,
    host: Host,
    caller: Caller,
    places: Arc<Semaphore>,
}

impl Connection {
    /// A connection with nothing under way.
    pub fn new(
        socket: WebSocketStream<TcpStream>,
        config: &Config,
        host: Host,
        principal: Principal,
        session: String,
    ) -> Self {
        let (writer, reader) = socket.split();
        let caller = Caller { principal: Some(principal), session: Some(session), ..Caller::default() };
        Connection { writer, reader, host, caller, places: Arc::new(Semaphore::new(config.requests)) }
    }

    /// Serves until the peer goes, or until the program ends: then what is under way is answered first.
    pub async fn run(mut self, mut ended: watch::Receiver<bool>) {
        let (answers, mut waiting) = mpsc::channel(WAITING);
        let mut running = JoinSet::new();
        let mut heard = Instant::now();
        let mut asked = false;
        let farewell = loop {
            let silent = heard + if asked { 2 * PING_AFTER } else { PING_AFTER };
            tokio::select! {
                Some(text) = waiting.recv() => {
                    if !self.write(Message::text::<String>(text)).await {
                        return;
                    }
                }
                message = self.reader.next() => {
                    (heard, asked) = (Instant::now(), false);
                    match message {
                        Some(Ok(Message::Text(text))) => self.begin(text.to_string(), &answers, &mut running),
                        Some(Ok(Message::Binary(_))) => {
                            break CloseFrame { code: CloseCode::Unsupported, reason: "the protocol is text".into() };
                        }
                        Some(Ok(Message::Close(_))) => {
                            // The farewell is answered by itself, with the next bytes that are written.
                            let _ = timeout(PATIENCE, self.writer.flush()).await;
                            return;
                        }
                        None => return,
                        Some(Ok(_)) => {}
                        Some(Err(error)) => {
                            tracing::debug!(%error, "a connection ended");
                            match fault(&error) {
                                Some(frame) => return self.part(frame).await,
                                None => return,
                            }
                        }
                    }
                }
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = sleep_until(silent) => {
                    if asked || !self.write(Message::Ping(Vec::new().into())).await {
                        return;
                    }
                    asked = true;
                }
                () = raised(&mut ended) => {
                    break CloseFrame { code: CloseCode::Away, reason: "the daemon is ending".into() };
                }
            }
        };
        self.finish(running, answers, waiting, farewell).await;
    }

    /// Answers what is under way and owed, within the patience that a peer has, and says farewell.
    async fn finish(
        mut self,
        mut running: JoinSet<()>,
        answers: mpsc::Sender<String>,
        mut waiting: mpsc::Receiver<String>,
        farewell: CloseFrame,
    ) {
        drop(answers);
        let rest = async {
            while let Some(text) = waiting.recv().await {
                if !self.write(Message::text(text)).await {
                    return;
                }
            }
        };
        // Streams do not end by themselves: who is still there then is told by the close.
        let _ = timeout(std::time::Duration::from_millis(500), rest).await;
        running.shutdown().await;
        self.part(farewell).await;
    }

    /// Says farewell, and waits a moment until the peer is gone: a connection that is closed while there is something to
    /// read is reset, and the farewell with it.
    async fn part(mut self, farewell: CloseFrame) {
        if !self.write(Message::Close(Some(farewell))).await {
            return;
        }
        let Ok(mut socket) = self.reader.reunite(self.writer) else { return };
        let stream = socket.get_mut();
        let rest = async {
            let _ = stream.shutdown().await;
            let mut bytes = [0; 4096];
            while matches!(stream.read(&mut bytes).await, Ok(length) if length > 0) {}
        };
        let _ = timeout(PARTING, rest).await;
    }

    /// Runs one request beside the others.
    fn begin(&self, request: String, answers: &mpsc::Sender<String>, running: &mut JoinSet<()>) {
        let (host, caller, answers) = (self.host.clone(), self.caller.clone(), answers.clone());
        let place = self.places.clone().try_acquire_owned();
        running.spawn(async move {
            match place {
                Ok(_place) => answer(&host, &caller, &request, &answers).await,
                Err(_) => refuse(&request, &answers).await,
            }
        });
    }

    /// Whether the peer took it in time.
    async fn write(&mut self, message: Message) -> bool {
        matches!(timeout(PATIENCE, self.writer.send(message)).await, Ok(Ok(())))
    }
}

/// What to tell a peer that broke the rules; nothing to one that is gone.
fn fault(error: &WsError) -> Option<CloseFrame> {
    let code = match error {
        WsError::Capacity(_) => CloseCode::Size,
        WsError::Utf8(_) => CloseCode::Invalid,
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
        WsError::Protocol(_) => CloseCode::Protocol,
        _ => return None,
    };
    // A reason has room for 123 bytes.
    let reason: String = error.to_string().chars().take(60).collect();
    Some(CloseFrame { code, reason: reason.into() })
}

/// Runs a request and writes its answer and what follows. When nobody reads any more, it is given up.
async fn answer(host: &Host, caller: &Caller, request: &str, answers: &mpsc::Sender<String>) {
    let mut objects = host.exchange(caller, request);
    while let Some(object) = objects.next().await {
        if answers.send(object).await.is_err() {
            return;
        }
    }
}

/// Answers a request that is one too many.
async fn refuse(request: &str, answers: &mpsc::Sender<String>) {
    let error = Error::new(ErrorKind::Backpressure, "too many requests are under way on this connection")
        .help("wait for an answer, or use another connection; a watch is under way until it is closed");
    drop(answers.send(refusal(request, &error)).await);
}

/// Waits until the flag is up.
async fn raised(flag: &mut watch::Receiver<bool>) {
    // Whoever could raise it is never gone before us.
    drop(flag.wait_for(|up| *up).await);
}
