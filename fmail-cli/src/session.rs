//! What nearly every command needs: the project, its settings, its store, and who acts.

use std::sync::Arc;

use fmail_api::{AgentName, Client, Clock, Context, Error, Reply, Request, Result, Store, Timestamp};
use fmail_core::Operations;
use fmail_host::{Environment, Project, Serving, Settings, SystemClock, open_store};
use futures::executor::block_on;

use crate::output::reporter;

/// Where a command runs: its environment and the project that this means. Nothing is opened yet.
pub(crate) struct Place {
    pub(crate) environment: Environment,
    pub(crate) project: Project,
    pub(crate) settings: Settings,
}

impl Place {
    /// Finds the project and reads the settings; `set` are the `KEY=VALUE`s of the command line.
    pub(crate) fn find(environment: Environment, set: &[String]) -> Result<Place> {
        let project = Project::discover(&environment)?;
        let settings = Settings::load(&environment, Some(&project), &overrides(set)?)?;
        Ok(Place { environment, project, settings })
    }

    /// Opens the project's store. Nothing is created by that.
    pub(crate) fn store(&self) -> Result<Arc<dyn Store>> {
        open_store(&self.project, &self.settings, reporter(), Serving::Cli)
    }

    /// Opens the project on behalf of an agent.
    pub(crate) fn session(&self, agent: AgentName) -> Result<Session> {
        let operations = Arc::new(Operations::new(self.store()?, Arc::new(SystemClock)));
        Ok(Session { operations, context: Context { host: host(), ..Context::local(agent) } })
    }
}

/// An agent in a project, able to run operations.
pub(crate) struct Session {
    pub(crate) operations: Arc<Operations>,
    pub(crate) context: Context,
}

impl Session {
    /// Runs an operation to its answer.
    ///
    /// Without any runtime: the built-in stores do their work in the calling thread, and a `send` must cost little more
    /// than the start of its process.
    pub(crate) fn call(&self, request: Request) -> Result<Reply> {
        block_on(self.operations.call(&self.context, request))
    }
}

/// The name of this machine.
pub(crate) fn host() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(String::from).filter(|host| !host.is_empty())
}

/// The time of this machine.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// The answer does not belong to the question: a defect, or another version at the other end.
pub(crate) fn unexpected() -> Error {
    Error::internal("the answer does not belong to the request")
        .help("compare the versions of the two sides with `fmail --version`")
}

/// The settings of the command line: keys with their texts.
pub(crate) fn overrides(set: &[String]) -> Result<Vec<(String, String)>> {
    set.iter()
        .map(|text| match text.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_string(), value.to_string())),
            None => Err(Error::invalid(format!("--set {text} has no value"))
                .help("write --set KEY=VALUE; `fmail config show` lists the keys")),
        })
        .collect()
}
