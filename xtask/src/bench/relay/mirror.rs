//! Two NATS servers: a stream at one, and a stream at the other that mirrors it.

use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use serde_json::{Value, json};

use crate::bench::daemon::jetstream::{JetStream, PATIENCE};
use crate::bench::daemon::nats::free_port;
use crate::bench::daemon::peer::Script;
use crate::bench::stage::Stage;

/// The second is a leaf of the first, with a JetStream of its own.
pub struct Mirror {
    /// Name and version.
    pub name: String,
    servers: [JetStream; 2],
}

/// The names of the streams: the one that is sent to, and its mirror.
const STREAMS: [&str; 2] = ["bench", "mirror"];

impl Mirror {
    /// Starts both servers and makes the streams, each with one copy on disk. They sync every message before they acknowledge
    /// it, or from time to time, as they do by default.
    pub fn start(stage: &Stage, durable: bool) -> Result<Self> {
        let leaves = free_port()?;
        let part = format!("leafnodes {{ host: 127.0.0.1, port: {leaves} }}");
        let first = JetStream::with_stream(stage, "server-0", durable, &part)?;
        let part = format!("leafnodes {{ remotes: [ {{ url: \"nats-leaf://127.0.0.1:{leaves}\" }} ] }}");
        let second = JetStream::start(stage, "server-1", durable, &part)?;
        let mirrored = json!({"name": "bench", "external": {"api": "$JS.server-0.API"}});
        let stream = json!({"name": "mirror", "mirror": mirrored, "storage": "file"});
        second.ask("$JS.API.STREAM.CREATE.mirror", &stream)?;
        Ok(Mirror { name: first.name.clone(), servers: [first, second] })
    }

    /// Publishing at the first server, acknowledged by its stream; and watching this server's stream, from now on.
    pub fn script(&self, name: &str, server: usize) -> Result<Script> {
        self.caught_up()?;
        let stream = STREAMS[server];
        let consumer = json!({"stream_name": stream, "config": {"name": name, "durable_name": name,
            "deliver_subject": format!("deliver.{name}"), "deliver_policy": "new", "ack_policy": "none"}});
        self.servers[server].ask(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}"), &consumer)?;
        self.servers[server].script(name)
    }

    /// Waits until the mirror holds what the stream holds: what is late must not be counted by who comes next.
    fn caught_up(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let last = |server: usize| -> Result<Value> {
            let info = self.servers[server].ask(&format!("$JS.API.STREAM.INFO.{}", STREAMS[server]), &json!({}))?;
            Ok(info["state"]["last_seq"].clone())
        };
        while last(0)? != last(1)? {
            if Instant::now() > end {
                return Err(Error::internal("the mirror does not get what the stream holds"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
