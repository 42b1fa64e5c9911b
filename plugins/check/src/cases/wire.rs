//! A peer that speaks no language: raw bytes to where a transport listens.

use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fmail_conformance::{Failure, Verdict};

/// How long a connection or a write may take: a server need not read garbage.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that the transport knows nothing of.
pub(super) struct Raw(Box<dyn Write>);

impl Raw {
    /// Connects to an endpoint as `serve` names it; the reason when the suite does not know how.
    pub(super) fn connect(endpoint: &str) -> Verdict<Result<Raw, String>> {
        let failed = |error: std::io::Error| Failure::new(format!("nobody listens on {endpoint}: {error}"));
        if let Some(path) = endpoint.strip_prefix("unix:") {
            let stream = UnixStream::connect(path.strip_prefix("//").unwrap_or(path)).map_err(failed)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            return Ok(Ok(Raw(Box::new(stream))));
        }
        let place = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
        let place = place.split(['/', '?']).next().unwrap_or_default();
        let Some(address) = place.to_socket_addrs().ok().and_then(|mut all| all.next()) else {
            return Ok(Err(format!("the suite can connect to unix:PATH and to SCHEME://HOST:PORT, not to {endpoint}")));
        };
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Ok(Raw(Box::new(stream))))
    }

    /// Writes as much of it as the server takes: who is shown the door has done its part.
    pub(super) fn throw(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
    }
}

/// Things that no client would write.
pub(super) fn nonsense() -> Vec<Vec<u8>> {
    // Bytes without any order, the same in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    vec![
        Vec::new(),
        vec![0; 4096],
        vec![b'\n'; 1000],
        noise.take(65_536).collect(),
        b"{\"cmd\":\"send\",".to_vec(),
        b"{}\n{}\n".to_vec(),
        b"[]\n\"\"\n".to_vec(),
        b"null\nnull\n".to_vec(),
        b"{\"project\":\"one\"}\n{\"cmd\":\"no-such-thing\"}\n".to_vec(),
        b"{\"project\":7,\"principal\":\"local\"}\n\xff\xfe\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: \r\n\r\n".to_vec(),
        [b"{\"project\":\"".to_vec(), vec![b'x'; 1 << 20]].concat(),
        [vec![b'['; 100_000], b"\n".to_vec(), vec![b'{'; 100_000], b"\n".to_vec()].concat(),
    ]
}
