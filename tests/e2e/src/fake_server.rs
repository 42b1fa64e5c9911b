//! An HTTP server that says exactly what a test wants it to say: somebody else's server on a bad day.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use serde_json::{Value, json};

use crate::DEADLINE;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// Method, path and version.
    pub line: String,
    /// The headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// What follows them.
    pub body: String,
}

impl Received {
    /// Reads a request; nothing when the connection ends before it does.
    pub fn read(stream: &mut impl BufRead) -> Option<Received> {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let mut headers = Vec::new();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
        }
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(0, |(_, length)| length.parse().expect("a length is a number"));
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some(Received { line: line.trim_end().into(), headers, body: String::from_utf8(body).expect("UTF-8") })
    }

    /// A header, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.body))
    }

    /// The id of the request that the body is.
    pub fn id(&self) -> Value {
        self.json()["id"].clone()
    }
}

/// A server on a port of its own, until it is dropped with its test.
pub struct FakeServer {
    address: SocketAddr,
    requests: Receiver<Received>,
}

impl FakeServer {
    /// A server that gives every connection to `answer`, with its one request. The connection ends when that returns.
    pub fn new(answer: impl Fn(&Received, &mut TcpStream) + Send + Sync + 'static) -> FakeServer {
        FakeServer::over(move |stream, note| {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let Some(request) = Received::read(&mut reader) else { return };
            note(request.clone());
            let mut stream = stream;
            answer(&request, &mut stream);
            // A client that has not read everything gets no reset for what it still sends.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(200)));
            let _ = stream.read(&mut [0; 64]);
        })
    }

    /// A server that is nothing but its connections; `note` keeps a request for the test.
    pub fn over(serve: impl Fn(TcpStream, &dyn Fn(Received)) + Send + Sync + 'static) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (sender, requests) = channel();
        let serve = std::sync::Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (serve, sender) = (serve.clone(), sender.clone());
                thread::spawn(move || serve(stream, &|request| drop(sender.send(request))));
            }
        });
        FakeServer { address, requests }
    }

    /// A server that always gives these bytes.
    pub fn saying(bytes: impl Into<Vec<u8>>) -> FakeServer {
        let bytes = bytes.into();
        FakeServer::new(move |_, stream| drop(stream.write_all(&bytes)))
    }

    /// A server that answers every request with this result.
    pub fn answering(result: Value) -> FakeServer {
        FakeServer::new(move |request, stream| {
            let answer = json!({"jsonrpc": "2.0", "id": request.id(), "result": result});
            let _ = stream.write_all(&response("200 OK", "application/json", &answer.to_string()));
        })
    }

    /// Where it is, as AGENT_MAIL_BASE_URL has it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The next request that it got.
    #[track_caller]
    pub fn request(&self) -> Received {
        self.requests.recv_timeout(DEADLINE).expect("a request comes")
    }

    /// Whether it has got no further request.
    pub fn is_quiet(&self) -> bool {
        matches!(self.requests.recv_timeout(std::time::Duration::ZERO), Err(RecvTimeoutError::Timeout))
    }
}

/// A whole response.
pub fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}
