//! The trait of a relay plugin.

use async_trait::async_trait;
use fmail_api::{RelayStatus, Result, Shutdown};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::Host;

/// Keeps hosts in step. Rules Y1 to Y5 of [`fmail_api::Relay`] hold here too.
#[async_trait]
pub trait Relay: Send + Sync + 'static {
    /// Runs until the shutdown. The future is dropped when the host gives up waiting.
    async fn run(&self, host: Host, shutdown: Shutdown) -> Result<()>;

    /// The state of every link, now and whenever it changes. By default nothing is said.
    fn status(&self) -> BoxStream<'static, RelayStatus> {
        stream::pending().boxed()
    }

    /// Lets go of everything.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
