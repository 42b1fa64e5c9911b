//! A connection's socket: what hyper reads from and writes to.
//!
//! It is shared with who watches whether the peer has gone, which hyper does not do while it writes. And a peer that does
//! not take what is written is given up: hyper would wait for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::net::TcpStream;
use fmail_plugin::tokio::time::{Instant, Sleep, sleep};
use hyper::rt::{Read, ReadBufCursor, Write};
use rustix::net::{Shutdown, shutdown};

/// So much is read at once.
const BLOCK: usize = 16 * 1024;

/// The socket in hyper's hands.
pub struct Socket {
    stream: Arc<TcpStream>,
    patience: Duration,
    /// Runs while something waits to be written.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// A socket whose peer may take so long to take something.
    pub fn new(stream: Arc<TcpStream>, patience: Duration) -> Self {
        Socket { stream, patience, waiting: None }
    }

    /// The peer takes nothing now: waits, but not for ever.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not take what is written")))
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut block = [0; BLOCK];
        let room = buffer.remaining().min(BLOCK);
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read(&mut block[..room]) {
                Ok(length) => {
                    buffer.put_slice(&block[..length]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return self.wait(context),
            }
            match self.stream.try_write(bytes) {
                Ok(length) => {
                    self.waiting = None;
                    return Poll::Ready(Ok(length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&*self.stream, Shutdown::Write).map_err(io::Error::from))
    }
}

/// Waits until the peer has closed its side, or is lost.
pub async fn closed(stream: &TcpStream) {
    loop {
        // Of the kinds of readiness this one comes with data out of band, which nobody sends, and with the end; waiting for
        // data would be woken by every byte that hyper has not read yet.
        match stream.ready(Interest::PRIORITY).await {
            Ok(ready) if !ready.is_read_closed() => std::future::pending().await,
            _ => return,
        }
    }
}

/// Reads what the peer still sends, until it goes: a connection that is closed while there is something to read is reset,
/// and the last answer with it.
pub async fn linger(stream: &TcpStream, time: Duration) {
    let end = Instant::now() + time;
    let mut block = [0; BLOCK];
    while let Ok(Ok(())) = fmail_plugin::tokio::time::timeout_at(end, stream.readable()).await {
        match stream.try_read(&mut block) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}
