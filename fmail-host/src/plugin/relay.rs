//! A plugin as a relay.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_abi::Spawner;
use fmail_api::verbs::{decode, method};
use fmail_api::{Error, Host, Principal, Relay, RelayStatus, Result, Shutdown};
use futures::stream::BoxStream;
use futures::{StreamExt, future, stream};
use futures_timer::Delay;
use tokio::sync::watch;

use super::opened::node;
use super::transport::{GRACE, overdue};
use super::upward::HostService;
use super::{Plugin, Role, Surroundings, Upward};

/// A relay that is a plugin.
pub struct PluginRelay {
    plugin: Plugin,
    data_dir: PathBuf,
    spawner: Arc<dyn Spawner>,
    status: watch::Sender<RelayStatus>,
}

impl PluginRelay {
    /// The relay that a plugin is. `data_dir` is the plugin's own, and `spawner` runs what it asks.
    pub fn new(plugin: Plugin, data_dir: PathBuf, spawner: Arc<dyn Spawner>) -> Self {
        PluginRelay { plugin, data_dir, spawner, status: watch::Sender::default() }
    }

    fn told(&self, item: Result<Vec<u8>>) -> Result<()> {
        let status = decode("the status of the relay", &item?)?;
        self.status.send_replace(status);
        Ok(())
    }
}

#[async_trait]
impl Relay for PluginRelay {
    fn name(&self) -> &str {
        self.plugin.name()
    }

    async fn run(&self, local: Arc<dyn Host>, mut shutdown: Shutdown) -> Result<()> {
        // A relay stands in the configuration of this program, and acts in its name.
        let service = Arc::new(HostService::new(local, Principal::Local));
        let upward = Upward { service, spawner: self.spawner.clone() };
        let surroundings = Surroundings {
            role: Role::Relay,
            project: None,
            node: node(),
            data_dir: self.data_dir.clone(),
            max_message_bytes: None,
        };
        let instance = self.plugin.instance(&surroundings, Some(upward)).await?;
        let (_, mut running) = instance.stream(method::RUN, b"", b"{}").await?;
        let mut told: Option<Delay> = None;
        let ended = loop {
            let next = match &mut told {
                Some(end) => match future::select(running.next(), end).await {
                    future::Either::Left((next, _)) => next,
                    future::Either::Right(_) => break Err(overdue("relay", self.plugin.name())),
                },
                None => match future::select(running.next(), &mut shutdown).await {
                    future::Either::Left((next, _)) => next,
                    future::Either::Right(_) => {
                        told = Some(Delay::new(GRACE));
                        if let Err(error) = instance.call(method::SHUTDOWN, b"", b"{}").await {
                            break Err(error);
                        }
                        continue;
                    }
                },
            };
            match next {
                Some(item) => {
                    if let Err(error) = self.told(item) {
                        break Err(error);
                    }
                }
                None if told.is_some() => break Ok(()),
                None => {
                    let text = format!("the relay `{}` ended although nobody told it to", self.plugin.name());
                    break Err(Error::internal(text));
                }
            }
        };
        // A stream that is held counts as under way, and would be waited for.
        drop(running);
        let closed = instance.close(GRACE).await;
        ended.and(closed.map(drop))
    }

    fn status(&self) -> BoxStream<'static, RelayStatus> {
        let mut statuses = self.status.subscribe();
        statuses.mark_changed();
        stream::unfold(statuses, |mut statuses| async {
            statuses.changed().await.ok()?;
            let status = statuses.borrow_and_update().clone();
            Some((status, statuses))
        })
        .boxed()
    }
}
