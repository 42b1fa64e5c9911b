//! The trait of a transport plugin.

use async_trait::async_trait;
use fmail_api::{Error, ErrorKind, Listening, Result, Shutdown};

use crate::{Caller, Host, Reply};

/// Carries the vocabulary between clients and the daemon, as the JSON objects of PROTOCOL.md.
///
/// An instance has one of two roles ([`Envelope::role`](crate::Envelope::role)): the daemon makes one that serves, a command
/// line one that asks. Rules T1 to T5 of [`fmail_api::Transport`] hold here too.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Serves the host's projects until the shutdown. Returns when clients can connect. What `finished` holds is dropped,
    /// finished or not, when the host gives up waiting.
    async fn serve(&self, host: Host, shutdown: Shutdown) -> Result<Listening>;

    /// Runs one operation at the other end: the client's role.
    async fn request(&self, caller: Caller, request: String) -> Result<Reply> {
        let _ = (caller, request);
        Err(Error::new(ErrorKind::Unsupported, "this transport serves, but cannot connect"))
    }

    /// Lets go of everything.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
