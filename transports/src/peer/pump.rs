//! What arrives at one end goes to the other at once.

use std::convert::Infallible;

use fmail_api::{ErrorKind, EventStream};
use tokio::time::sleep;

use super::carry::Known;
use super::session::Session;
use super::status::Way;

impl Session {
    /// Carries what arrives at one end to the other, for as long as it is polled. A stream that ends (its reader was too
    /// slow, or the store's index was rebuilt) is opened again, and what fell between is found by a comparison.
    pub(super) async fn pump(&self, way: Way, mut events: EventStream) -> Infallible {
        loop {
            match self.carry(way, events, Known::Ever).await {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Backpressure | ErrorKind::Expired) => {
                    tracing::debug!(peer = self.peer(), ?way, %error, "a stream is opened again");
                }
                Err(error) => {
                    self.troubled(&format!("a stream of messages ended: {error}"));
                    sleep(self.pace.again).await;
                }
            }
            events = loop {
                match self.open(way).await {
                    Ok(events) => break events,
                    Err(error) => {
                        self.troubled(&format!("messages cannot be streamed: {error}"));
                        sleep(self.pace.again).await;
                    }
                }
            };
            self.compare_now();
        }
    }

    /// The stream of what arrives at one end from now on.
    pub(super) async fn open(&self, way: Way) -> fmail_api::Result<EventStream> {
        let events = self.end(way.origin()).relay(None, Some(self.end(way.destination()).run)).await?;
        self.reading.opened(way);
        Ok(events)
    }
}
