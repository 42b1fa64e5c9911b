//! `fmail chat bridge`

mod link;
mod progress;

use std::path::PathBuf;

use clap::Args;
use fmail_api::{AgentName, Error, ErrorKind, Result};

use super::{file, store};
use crate::output::Outcome;
use crate::session::Place;
use link::{Bridge, Choice};
pub(crate) use progress::Start;

#[derive(Args)]
pub(crate) struct BridgeCommand {
    /// The chat file; without it .workplace/chat.md, here or in a directory above up to the project's root
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only messages from or to this agent; may be given several times. Without it, all direct messages
    #[arg(long = "agent", value_name = "NAME")]
    agents: Vec<String>,

    /// Bring over everything that stands on either side already
    #[arg(long, conflicts_with = "from_now")]
    from_start: bool,

    /// Begin with what comes from now on, whatever an earlier run has left; a first run does so anyway
    #[arg(long)]
    from_now: bool,

    /// Bring over what there is, then end
    #[arg(long)]
    once: bool,

    /// Print each message that was brought over as a JSON object
    #[arg(long)]
    json: bool,
}

impl BridgeCommand {
    pub(crate) fn run(self, place: &Place, set: &[String]) -> Outcome {
        let path = file::path(place, self.file.as_deref());
        if place.settings.mail.store == "chat" {
            let text = "the project's own store is a chat file: there is nothing to bridge to";
            return Err(Error::new(ErrorKind::InvalidConfig, text)
                .help("set mail.store to the store that the team moves to, such as files")
                .into());
        }
        let agents = self.agents.iter().map(|name| agent(name)).collect::<Result<Vec<_>>>()?;
        let chat = store::open(place, set, &path)?;
        let start = match (self.from_start, self.from_now) {
            (true, _) => Start::Beginning,
            (_, true) => Start::Now,
            _ => Start::Resume,
        };
        let choice = Choice { agents, once: self.once, json: self.json, start };
        Bridge::new(place, chat, path, choice)?.run()
    }
}

/// The agent, as fmail or as the chat file spells it.
fn agent(text: &str) -> Result<AgentName> {
    AgentName::from_foreign(text.strip_prefix('@').unwrap_or(text))
}
