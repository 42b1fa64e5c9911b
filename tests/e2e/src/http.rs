//! A client of HTTP/1.1 that writes and reads the bytes itself, also such as no library would write.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::Value;

use crate::DEADLINE;

/// A connection.
pub struct Http {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    host: String,
}

/// The first line and the headers of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status and the headers.
    pub head: Head,
    /// The body, without its chunks.
    pub body: Vec<u8>,
}

impl Head {
    /// The value of a header; nothing when it is missing. One that comes twice is no answer of ours.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice: {:?}", self.headers);
        first
    }
}

impl Answer {
    /// The status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of a header.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// The body as one JSON value; its type has to be JSON too.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        serde_json::from_str(&self.text()).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// The events of a body that is a stream which has ended.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"), "{}", self.text());
        let data = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"));
        self.text().lines().filter_map(|line| line.strip_prefix("data: ").map(data)).collect()
    }
}

impl Http {
    /// Connects to `host:port`.
    pub fn connect(address: &str) -> Http {
        Http::try_connect(address).unwrap_or_else(|error| panic!("nobody listens on {address}: {error}"))
    }

    /// Connects, if somebody listens.
    pub fn try_connect(address: &str) -> io::Result<Http> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Http { stream, reader, host: address.into() })
    }

    /// Writes bytes, whatever they are. What the daemon does not read any more is lost.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Closes the sending side.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a socket");
    }

    /// Writes a request with these headers beside `Host` and the length of the body.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {}\r\n", self.host);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut bytes = (text + "\r\n").into_bytes();
        bytes.extend(body);
        self.write(bytes);
    }

    /// A request and its answer.
    #[track_caller]
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send(method, path, headers, body);
        self.answer(method)
    }

    /// A request with a JSON body, and its answer.
    #[track_caller]
    pub fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let headers: Vec<_> = [("Content-Type", "application/json")].iter().chain(headers).copied().collect();
        self.request("POST", path, &headers, body.to_string().as_bytes())
    }

    /// The next answer; `method` is the request's, since an answer to HEAD has no body.
    #[track_caller]
    pub fn answer(&mut self, method: &str) -> Answer {
        let head = self.head().unwrap_or_else(|| panic!("the connection ended without an answer"));
        let mut body = Vec::new();
        if method == "HEAD" || head.status == 204 || head.status == 304 {
            return Answer { head, body };
        }
        if head.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else {
            let length = head.header("content-length").map(|length| length.parse().expect("a number"));
            body.resize(length.unwrap_or_else(|| panic!("the answer has no end: {head:?}")), 0);
            self.read_exact(&mut body).expect("the whole answer");
        }
        Answer { head, body }
    }

    /// The head of the next answer; nothing when the connection has ended.
    #[track_caller]
    pub fn head(&mut self) -> Option<Head> {
        let first = self.line()?;
        let mut words = first.split(' ');
        assert_eq!(words.next(), Some("HTTP/1.1"), "{first}");
        let status = words.next().and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{first}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("a head has an end");
            if line.is_empty() {
                return Some(Head { status, headers });
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line}"));
            headers.push((name.to_string(), value.trim().to_string()));
        }
    }

    /// The next chunk of a body; nothing at its end, also when it was broken off.
    #[track_caller]
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line()?;
        let length = usize::from_str_radix(&line, 16).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let mut chunk = vec![0; length];
        self.read_exact(&mut chunk).ok()?;
        assert_eq!(self.line()?, "", "a chunk has an end");
        (length > 0).then_some(chunk)
    }

    /// Asks for a stream, and gives what follows its head.
    #[track_caller]
    pub fn stream(mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Events {
        self.send(method, path, headers, body);
        let head = self.head().unwrap_or_else(|| panic!("the connection ended without an answer"));
        if head.status != 200 || head.header("transfer-encoding") != Some("chunked") {
            panic!("this is no stream: {head:?}");
        }
        Events { head, http: self, text: String::new() }
    }

    /// Waits until the daemon has closed the connection; false when it says something first.
    pub fn is_closed(&mut self) -> bool {
        match self.reader.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => !late(&error),
        }
    }

    /// The next line, without its end; nothing when the connection has ended.
    #[track_caller]
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Ok(_) => {}
            Err(error) => {
                assert!(!late(&error), "nothing from the daemon in {DEADLINE:?}");
                return None;
            }
        }
        let whole = line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n"))?;
        Some(String::from_utf8_lossy(whole).into_owned())
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes).inspect_err(|error| {
            assert!(!late(error), "nothing from the daemon in {DEADLINE:?}");
        })
    }
}

/// An answer that goes on.
pub struct Events {
    /// Its status and headers.
    pub head: Head,
    http: Http,
    text: String,
}

impl Events {
    /// The next event of an event stream; comments are passed over. Nothing at the end.
    #[track_caller]
    pub fn event(&mut self) -> Option<Value> {
        loop {
            let block = self.block("\n\n")?;
            let mut data = block.lines().filter_map(|line| line.strip_prefix("data: "));
            if let Some(data) = data.next() {
                return Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("not JSON ({error}): {block}")));
            }
        }
    }

    /// The next comment of an event stream, which must not be an event.
    #[track_caller]
    pub fn comment(&mut self) -> Option<String> {
        let block = self.block("\n\n")?;
        assert!(block.starts_with(':'), "{block}");
        Some(block)
    }

    /// The next line of a stream of JSON lines. Nothing at the end.
    #[track_caller]
    pub fn json_line(&mut self) -> Option<Value> {
        let line = self.block("\n")?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}")))
    }

    /// The connection.
    pub fn connection(&mut self) -> &mut Http {
        &mut self.http
    }

    /// What comes up to `end`.
    fn block(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once(end) {
                let block = block.to_string();
                self.text = rest.to_string();
                return Some(block);
            }
            let chunk = self.http.chunk()?;
            self.text += std::str::from_utf8(&chunk).expect("a stream is UTF-8");
        }
    }
}

fn late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
