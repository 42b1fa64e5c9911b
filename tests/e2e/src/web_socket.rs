//! A client of WebSocket that writes and reads the bytes of RFC 6455 itself, also such as no library would write.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::DEADLINE;

/// The key that stands in the RFC, with the answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// The kinds of frames.
pub mod opcode {
    #![allow(missing_docs)]
    pub const CONTINUATION: u8 = 0;
    pub const TEXT: u8 = 1;
    pub const BINARY: u8 = 2;
    pub const CLOSE: u8 = 8;
    pub const PING: u8 = 9;
    pub const PONG: u8 = 10;
}

/// A connection after its handshake.
pub struct WebSocket {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// What the daemon sent.
#[derive(Debug, PartialEq)]
pub enum Frame {
    /// One object.
    Text(Value),
    /// The end, with its code; 1005 when there is none, as the RFC has it.
    Close(u16),
    /// The answer to a ping.
    Pong(Vec<u8>),
    /// The connection ended without a farewell.
    Gone,
}

impl WebSocket {
    /// Connects to `host:port`.
    pub fn connect(address: &str) -> WebSocket {
        match WebSocket::connect_with(address, &[]) {
            Ok(socket) => socket,
            Err(refused) => panic!("the handshake was refused: {refused}"),
        }
    }

    /// Connects with further headers; an answer that lets nobody in is the error.
    pub fn connect_with(address: &str, headers: &[(&str, &str)]) -> Result<WebSocket, String> {
        let stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
        );
        (&stream).write_all(request.as_bytes()).expect("the daemon reads");
        let mut answer = String::new();
        while reader.read_line(&mut answer).expect("the daemon answers") > 2 {}
        if !answer.starts_with("HTTP/1.1 101 ") {
            // Behind the headers it says why, until it closes.
            let mut body = Vec::new();
            let _ = reader.read_to_end(&mut body);
            return Err(answer + &String::from_utf8_lossy(&body));
        }
        let accepts = |line: &str| line.eq_ignore_ascii_case(&format!("sec-websocket-accept: {ACCEPT}"));
        assert!(answer.lines().any(accepts), "the handshake is not of RFC 6455: {answer}");
        Ok(WebSocket { stream, reader })
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Value) {
        self.frame(true, opcode::TEXT, request.to_string().as_bytes());
    }

    /// Sends a request, and gives the next object.
    pub fn ask(&mut self, request: &Value) -> Value {
        self.send(request);
        self.object()
    }

    /// Writes one frame, masked as a client has to. What the daemon does not read any more is lost.
    pub fn frame(&mut self, last: bool, opcode: u8, payload: &[u8]) {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let mut bytes = vec![u8::from(last) << 7 | opcode];
        match payload.len() {
            short @ 0..126 => bytes.push(0x80 | short as u8),
            middle @ 126..65536 => {
                bytes.push(0x80 | 126);
                bytes.extend((middle as u16).to_be_bytes());
            }
            long => {
                bytes.push(0x80 | 127);
                bytes.extend((long as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.bytes(&bytes);
    }

    /// Writes bytes, whatever they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next object; signs of life are passed over.
    #[track_caller]
    pub fn object(&mut self) -> Value {
        loop {
            match self.read() {
                Frame::Text(value) if value["event"] != "ping" => return value,
                Frame::Text(_) | Frame::Pong(_) => {}
                other => panic!("an object was expected, but: {other:?}"),
            }
        }
    }

    /// The next frame.
    pub fn read(&mut self) -> Frame {
        loop {
            let Ok((opcode, payload)) = self.read_frame() else { return Frame::Gone };
            return match opcode {
                opcode::TEXT => {
                    let text = String::from_utf8(payload).expect("a text is UTF-8");
                    Frame::Text(
                        serde_json::from_str(&text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}")),
                    )
                }
                opcode::CLOSE if payload.len() >= 2 => Frame::Close(u16::from_be_bytes([payload[0], payload[1]])),
                opcode::CLOSE => Frame::Close(1005),
                opcode::PONG => Frame::Pong(payload),
                opcode::PING => {
                    self.frame(true, opcode::PONG, &payload);
                    continue;
                }
                other => panic!("the daemon sent a frame of the kind {other}"),
            };
        }
    }

    fn read_frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.read_bytes(&mut head)?;
        assert!(head[0] & 0x80 != 0 && head[1] & 0x80 == 0, "a server sends whole frames without a mask: {head:x?}");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.read_bytes(&mut length)?;
                u16::from_be_bytes(length).into()
            }
            127 => {
                let mut length = [0; 8];
                self.read_bytes(&mut length)?;
                u64::from_be_bytes(length)
            }
            short => short.into(),
        };
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.read_bytes(&mut payload)?;
        Ok((head[0] & 0xf, payload))
    }

    fn read_bytes(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes).inspect_err(|error| {
            let is_late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            assert!(!is_late, "nothing from the daemon in {DEADLINE:?}");
        })
    }
}
