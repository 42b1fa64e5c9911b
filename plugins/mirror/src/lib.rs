//! `mirror`: a relay that keeps the projects of one daemon in step with each other, the smallest one there can be.
//!
//! For each pair of projects it follows everything that arrives in the one and imports it into the other. What comes back
//! is recognised by its identity and goes no further, so that nothing runs in circles. How far each pair is stands in the
//! plugin's directory; without it a pair begins anew, and what is there already is told to be so.

mod link;
mod progress;

use std::sync::Arc;

use fmail_plugin::futures::future::join_all;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::futures::{FutureExt, StreamExt};
use fmail_plugin::tokio::sync::watch;
use fmail_plugin::{Envelope, Error, ErrorKind, Host, Relay, RelayStatus, Result, Shutdown, async_trait};
use serde::Deserialize;

use link::Link;
use progress::Progress;

fmail_plugin::relay! {
    name: "mirror",
    open: Mirror::open,
    config_schema: r#"{
        "type": "object",
        "properties": {
            "projects": {
                "type": "array",
                "items": {"type": "string"},
                "description": "the ids of the projects to keep in step; all that the daemon serves when it is empty",
                "default": []
            }
        }
    }"#,
}

/// The section of the configuration.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    projects: Vec<String>,
}

struct Mirror {
    config: Config,
    progress: Arc<Progress>,
    status: watch::Sender<RelayStatus>,
}

impl Mirror {
    async fn open(envelope: Envelope) -> Result<Mirror> {
        let progress = Progress::read(&envelope.data_dir)?;
        Ok(Mirror { config: envelope.config()?, progress: Arc::new(progress), status: watch::Sender::default() })
    }

    /// The projects to keep in step, which must be there.
    async fn projects(&self, host: &Host) -> Result<Vec<String>> {
        let served = host.projects().await?;
        let unknown = self.config.projects.iter().find(|id| !served.contains(id));
        if let Some(id) = unknown {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("the project `{id}` is not served by this daemon"),
            )
            .help(format!("served are: {}", served.join(", "))));
        }
        Ok(if self.config.projects.is_empty() { served } else { self.config.projects.clone() })
    }
}

#[async_trait]
impl Relay for Mirror {
    async fn run(&self, host: Host, shutdown: Shutdown) -> Result<()> {
        let projects = self.projects(&host).await?;
        let pairs =
            projects.iter().flat_map(|from| projects.iter().map(move |to| (from, to))).filter(|(from, to)| from != to);
        let links: Vec<Link> = pairs
            .map(|(from, to)| Link::new(from, to, host.clone(), self.progress.clone(), self.status.clone()))
            .collect();
        if links.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                "there is only one project here, and nothing to keep in step",
            )
            .help("start forged with two or more projects"));
        }
        let working = join_all(links.iter().map(Link::run)).map(drop);
        fmail_plugin::futures::future::select(working.boxed(), shutdown).await;
        self.progress.write()
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
