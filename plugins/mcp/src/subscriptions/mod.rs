//! Telling clients that a resource has changed.
//!
//! A client of 2025-11-25 and before subscribes to addresses in its session ([`Sessions`]) and hears of them on the stream
//! of that session; one of 2026-07-28 names them in `subscriptions/listen`, whose answer is the stream ([`listen`]). Both
//! stand on a [`Follower`]: one watch of each project that is meant, over all its mailboxes.
//!
//! A notification says that something changed, and to read again. So nothing has to be kept for a client that is slow or
//! away: the watch is read at the client's pace, and when its place is lost, everything is said to have changed.

mod follower;
mod listening;
mod sessions;

pub(crate) use listening::listen;
pub(crate) use sessions::Sessions;

use rmcp::model::ResourceUpdatedNotificationParam;
use serde_json::{Value, json};

use crate::rpc;

/// The most addresses that a session or a stream can subscribe to.
const MOST_ADDRESSES: usize = 256;

/// That the resource at this address has changed.
fn updated(uri: &str) -> Value {
    rpc::notification("notifications/resources/updated", json!(ResourceUpdatedNotificationParam::new(uri)))
}
