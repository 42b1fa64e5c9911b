//! Reading as much of a stream as a limit or an order asks for.

use std::collections::BTreeMap;

use fmail_api::{Delivery, Event, MessageStream, Result};
use futures::StreamExt;

/// What was read of a scan.
pub(super) struct Collected {
    /// What else the scan told.
    pub(super) told: Vec<Event>,
    pub(super) deliveries: Vec<Delivery>,
    /// There were more.
    pub(super) more: bool,
}

/// The first messages of a stream. Reads one more, to know whether there is one; holds no more than `limit`.
pub(super) async fn first(mut messages: MessageStream, limit: usize) -> Result<Collected> {
    let mut collected = Collected { told: Vec::new(), deliveries: Vec::new(), more: false };
    while let Some(event) = messages.next().await {
        match event? {
            Event::Message(_) if collected.deliveries.len() >= limit => {
                collected.more = true;
                break;
            }
            Event::Message(delivery) => collected.deliveries.push(delivery),
            other => collected.told.push(other),
        }
    }
    Ok(collected)
}

/// The messages of a stream with the highest ids, in ascending order. Reads all of it; holds no more than `limit`.
pub(super) async fn newest(mut messages: MessageStream, limit: usize) -> Result<Collected> {
    // The number keeps two messages apart that share an id.
    let mut kept = BTreeMap::new();
    let (mut told, mut count) = (Vec::new(), 0_u64);
    while let Some(event) = messages.next().await {
        match event? {
            Event::Message(delivery) => {
                kept.insert((delivery.message.id, count), delivery);
                count += 1;
                if kept.len() > limit {
                    kept.pop_first();
                }
            }
            other => told.push(other),
        }
    }
    let more = count > kept.len() as u64;
    Ok(Collected { told, deliveries: kept.into_values().collect(), more })
}
