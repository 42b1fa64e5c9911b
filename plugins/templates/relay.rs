//! A relay that keeps all projects of one daemon in step: what is sent in one is imported into the others.
use std::time::{Duration, UNIX_EPOCH};

use fmail_plugin::futures::stream::{self, BoxStream, StreamExt};
use fmail_plugin::futures::{FutureExt, future};
use fmail_plugin::serde_json::{Value, from_str, json};
use fmail_plugin::tokio::{sync::watch, time::sleep};
use fmail_plugin::{Caller, Error, Host, LinkStatus, Relay, RelayStatus, Result, Shutdown, Timestamp, async_trait};

fmail_plugin::relay! { name: "example-relay", open: |_| async { Ok(Mirror(watch::Sender::default())) } }

/// The state of every link, for whoever wants to know.
struct Mirror(watch::Sender<RelayStatus>);

#[async_trait]
impl Relay for Mirror {
    async fn run(&self, host: Host, shutdown: Shutdown) -> Result<()> {
        let projects = host.projects().await?;
        let pairs = projects.iter().flat_map(|from| projects.iter().map(move |to| (from, to)));
        // A message comes back from where it was imported, and is a duplicate there: nothing goes round for ever.
        let links = pairs.filter(|(from, to)| from != to).map(|(from, to)| self.link(&host, from, to));
        future::select(future::join_all(links).boxed(), shutdown).await;
        Ok(())
    }

    fn status(&self) -> BoxStream<'static, RelayStatus> {
        let mut states = self.0.subscribe();
        states.mark_changed();
        let next = |mut states: watch::Receiver<RelayStatus>| async {
            states.changed().await.ok()?;
            let state = states.borrow_and_update().clone();
            Some((state, states))
        };
        stream::unfold(states, next).boxed()
    }
}

impl Mirror {
    /// Follows one project for the sake of another, for ever: what fails is shown, concerns no other link, and is tried
    /// again.
    async fn link(&self, host: &Host, from: &str, to: &str) {
        loop {
            let ended = self.follow(host, from, to).await.err();
            let problem = ended.map_or_else(|| format!("the messages of {from} ended"), |error| error.to_string());
            self.note(from, to, |link| (link.connected, link.problem) = (false, Some(problem)));
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Imports everything of one project into the other, from the beginning, and goes on as it arrives.
    async fn follow(&self, host: &Host, from: &str, to: &str) -> Result<()> {
        let everything = r#"{"cmd":"relay","agent":"example-relay","since":"1970-01-01T00:00:00Z"}"#;
        let reply = host.request(&Caller::in_project(from), everything).await?;
        let mut events = reply.events.ok_or_else(|| Error::internal("the host sent no messages"))?;
        self.note(from, to, |link| (link.connected, link.problem) = (true, None));
        while let Some(event) = events.next().await {
            let Some(message) = parsed(&event?)?.get_mut("msg").map(Value::take) else { continue };
            let import = json!({"cmd": "import", "agent": "example-relay", "msg": message}).to_string();
            let answer = parsed(&host.request(&Caller::in_project(to), &import).await?.head)?;
            if answer["imported"].get("refused").is_some() {
                self.note(from, to, |link| link.counts.refused += 1);
            }
        }
        Ok(())
    }

    fn note(&self, from: &str, to: &str, change: impl FnOnce(&mut LinkStatus)) {
        let peer = format!("{from} -> {to}");
        self.0.send_modify(|state| {
            let known = state.links.iter().position(|link| link.peer == peer);
            let at = known.unwrap_or(state.links.len());
            if known.is_none() {
                let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64);
                let since = Timestamp::from_unix(now, 0);
                state.links.push(LinkStatus { authenticated: true, ..LinkStatus::new(peer, since) });
            }
            change(&mut state.links[at]);
        });
    }
}

fn parsed(text: &str) -> Result<Value> {
    from_str(text).map_err(|error| Error::internal(format!("the host sent something else than JSON: {error}")))
}
