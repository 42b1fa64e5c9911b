//! The way to a peer.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The way to the peer. Whoever has something to say takes its turn and waits until the peer has taken it, so that a
/// peer that reads slowly holds up its own requests and nothing is piled up for it.
pub struct Writer<W> {
    /// Nothing while a line is being written: a write that was given up leaves half a line, and behind that nothing may
    /// be written any more.
    sink: Mutex<Option<W>>,
    timeout: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// A way on which a peer is cut that does not take what is written for so long.
    pub fn new(sink: W, timeout: Duration) -> Self {
        Writer { sink: Mutex::new(Some(sink)), timeout }
    }

    /// Writes lines. The time is taken only when the peer does not take them at once.
    pub async fn write(&self, text: &str) -> io::Result<()> {
        let write = async {
            let mut place = self.sink.lock().await;
            let mut sink = place.take().ok_or(io::ErrorKind::BrokenPipe)?;
            sink.write_all(text.as_bytes()).await?;
            sink.flush().await?;
            *place = Some(sink);
            Ok(())
        };
        timeout(self.timeout, write).await.map_err(|_| {
            tracing::warn!("a peer does not take what it asked for, and is cut");
            io::Error::from(io::ErrorKind::TimedOut)
        })?
    }

    /// Says that nothing more will come. Over TLS the peer could not tell the end from a cut otherwise.
    pub async fn close(&self) {
        let goodbye = async {
            match self.sink.lock().await.take() {
                Some(mut sink) => sink.shutdown().await,
                None => Ok(()),
            }
        };
        // A peer that is gone or takes nothing gets none.
        let _ = timeout(Duration::from_secs(1), goodbye).await;
    }
}
