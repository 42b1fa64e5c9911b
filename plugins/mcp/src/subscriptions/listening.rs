//! `subscriptions/listen` of 2026-07-28: a request whose answer is a stream of notifications.

use std::collections::BTreeMap;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use rmcp::model::{ErrorData, SubscriptionFilter};
use serde_json::{Value, json};

use super::follower::{Follower, Subscription};
use super::{MOST_ADDRESSES, updated};
use crate::errors::Kind;
use crate::resources::{self, Subject};
use crate::revision::Revision;
use crate::rpc::{self, Request};
use crate::visit::Visit;

/// By what a client tells the streams of one connection apart.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Opens the stream. Its first message says what will be told: of what was asked for, the addresses that mean something.
/// Lists of tools and the like never change here.
pub(crate) async fn listen(visit: &Visit, request: Request) -> Result<BoxStream<'static, Value>, ErrorData> {
    let asked = asked(&request)?;
    let mut subscriptions = Vec::new();
    for uri in asked {
        match Subject::of(visit, &uri).await {
            Ok((project, subject)) => subscriptions.push(Subscription { uri, project, subject }),
            Err(failure) if matches!(failure.kind(), Kind::Operation(_)) => {
                return Err(resources::refusal(&failure, &uri, Revision::Stateless));
            }
            // It means nothing, and the first message says so by leaving it out.
            Err(_) => {}
        }
    }
    // Whatever arrives from here on is told, though the client has not heard yet that it is listening.
    let mut follower = Follower::default();
    let followed = follower.follow(&subscriptions, &BTreeMap::new()).await;
    followed.map_err(|failure| resources::refusal(&failure, "", Revision::Stateless))?;
    let addresses: Vec<&str> = subscriptions.iter().map(|one| &*one.uri).collect();
    let mut honoured = SubscriptionFilter::new();
    honoured.resource_subscriptions =
        Some(addresses.iter().map(ToString::to_string).collect()).filter(|list: &Vec<String>| !list.is_empty());
    let acknowledged =
        rpc::notification("notifications/subscriptions/acknowledged", json!({"notifications": honoured}));
    let id = request.id.clone();
    let first = stream::once(async move { acknowledged });
    let changes = stream::unfold((follower, subscriptions), |(mut follower, subscriptions)| async move {
        let uri = next(&mut follower, &subscriptions).await?;
        Some((updated(&uri), (follower, subscriptions)))
    });
    let meta = json!({SUBSCRIPTION_ID: id});
    let stamp = meta.clone();
    let told = first.chain(changes).map(move |mut message| {
        message["params"]["_meta"] = stamp.clone();
        message
    });
    let last = rpc::answer(&request.id, json!({"resultType": "complete", "_meta": meta}));
    Ok(told.chain(stream::once(async move { last })).boxed())
}

/// The next address that has changed; nothing when the projects are not served any more.
async fn next(follower: &mut Follower, subscriptions: &[Subscription]) -> Option<String> {
    loop {
        if let Some(uri) = follower.told() {
            return Some(uri);
        }
        let happening = follower.happening().boxed().await;
        follower.take_in(happening, subscriptions).await.ok()?;
    }
}

fn asked(request: &Request) -> Result<Vec<String>, ErrorData> {
    let filter = match request.params.get("notifications") {
        None | Some(Value::Null) => SubscriptionFilter::new(),
        Some(filter) => serde_json::from_value(filter.clone())
            .map_err(|error| ErrorData::invalid_params(format!("`notifications` cannot be used: {error}"), None))?,
    };
    let mut addresses = filter.resource_subscriptions.unwrap_or_default();
    addresses.dedup();
    match addresses.len() {
        count if count > MOST_ADDRESSES => Err(too_many(count)),
        _ => Ok(addresses),
    }
}

/// The error for more addresses than are followed for one client.
pub(super) fn too_many(count: usize) -> ErrorData {
    ErrorData::invalid_params(format!("{count} addresses are subscribed to, at most {MOST_ADDRESSES} can be"), None)
}
