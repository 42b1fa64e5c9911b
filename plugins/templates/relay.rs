//! A relay that keeps all projects of one daemon in step: what is sent in one is imported into the others.
use fmail_plugin::futures::{StreamExt, future};
use fmail_plugin::serde_json::{Value, json};
use fmail_plugin::{Caller, Error, Host, Relay, Result, Shutdown, async_trait};

fmail_plugin::relay! { name: "example-relay", open: |_| async { Ok(Mirror) } }

struct Mirror;

#[async_trait]
impl Relay for Mirror {
    async fn run(&self, host: Host, shutdown: Shutdown) -> Result<()> {
        let projects = host.projects().await?;
        let mirrored = projects.iter().map(|from| mirror(&host, from, &projects));
        // A message comes back from where it was imported, and is a duplicate there: nothing goes round for ever.
        match future::select(Box::pin(future::try_join_all(mirrored)), shutdown).await {
            future::Either::Left((ended, _)) => ended.map(drop),
            future::Either::Right(_) => Ok(()),
        }
    }
}

/// Imports everything of one project into the others, from the beginning, and goes on as it arrives.
async fn mirror(host: &Host, from: &str, projects: &[String]) -> Result<()> {
    let everything = r#"{"cmd":"relay","agent":"example-relay","since":"1970-01-01T00:00:00Z"}"#;
    let reply = host.request(&Caller::in_project(from), everything).await?;
    let mut events = reply.events.ok_or_else(|| Error::internal("the host sent no messages"))?;
    while let Some(event) = events.next().await {
        let event: Value = fmail_plugin::serde_json::from_str(&event?)
            .map_err(|error| Error::internal(format!("the host sent something else than JSON: {error}")))?;
        let Some(message) = event.get("msg") else { continue };
        let import = json!({"cmd": "import", "agent": "example-relay", "msg": message}).to_string();
        for to in projects.iter().filter(|to| *to != from) {
            host.request(&Caller::in_project(to), &import).await?;
        }
    }
    Err(Error::internal(format!("the messages of {from} ended")))
}
