//! What nearly every command needs: the project, its settings, its store, and who acts.

use std::sync::Arc;

use fmail_api::{
    AgentName, Client, Clock, Context, Error, ErrorKind, Reply, Request, Response, Result, Store, Target, Timestamp,
};
use fmail_core::{Operations, check_readable};
use fmail_host::{Environment, Project, Route, Serving, Settings, SystemClock, open_store};
use futures::executor::block_on;

use crate::connected::Daemon;
use crate::output::{advise, note, reporter};

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

    /// Opens the project's store in this process. Nothing is created by that.
    pub(crate) fn store(&self) -> Result<Arc<dyn Store>> {
        open(&self.project, &self.settings)
    }

    /// Opens the project on behalf of an agent, the way that its store is to be reached.
    pub(crate) fn session(&self, agent: AgentName) -> Result<Session> {
        match self.settings.route() {
            Route::Direct => self.session_here(agent),
            Route::Daemon => {
                let daemon = Daemon::only(self, &agent);
                Ok(self.session_served(agent, daemon, Local::Never))
            }
            Route::DaemonFirst => match Daemon::answering(self, &agent)? {
                Some(daemon) => {
                    let local = Local::Openable(Arc::new((self.project.clone(), self.settings.clone())));
                    Ok(self.session_served(agent, daemon, local))
                }
                None => self.session_here(agent),
            },
        }
    }

    /// The same for who reads at `target`. A daemon gives nobody another agent's mailbox, so who insists reads the store
    /// itself.
    pub(crate) fn reading_session(
        &self,
        agent: AgentName,
        target: Option<&Target>,
        allow_other_dm: bool,
    ) -> Result<Session> {
        check_readable(&agent, target, allow_other_dm)?;
        let other = match target.and_then(Target::agent) {
            Some(other) if *other != agent => other,
            _ => return self.session(agent),
        };
        let elsewhere = || {
            let text = format!(
                "the mailbox of @{other} can be read past its owner only where a command opens the store itself, and the \
                 store `{}` lives in forged's process",
                self.settings.mail.store
            );
            Error::new(ErrorKind::Unsupported, text).help(format!("set FMAIL_AGENT={other} if that is you"))
        };
        match self.settings.route() {
            Route::Direct => self.session_here(agent),
            Route::Daemon => Err(elsewhere()),
            // It turns out only now whether the store can be opened here.
            Route::DaemonFirst => self.session_here(agent).map_err(|error| match error.kind() {
                ErrorKind::InvalidConfig => elsewhere(),
                _ => error,
            }),
        }
    }

    /// Says so when there is no answer because the messages are still among the project's files: somebody chose another
    /// store and copied nothing. Asked only when an answer was empty, and of no built-in store.
    pub(crate) fn note_uncopied(&self, session: &Session) {
        if self.settings.route() != Route::DaemonFirst || !self.project.has_topic_files() {
            return;
        }
        // The note is an extra: where it cannot be told whether the store is empty, there is none.
        if let Ok(Response::Topics(topics)) = session.call(Request::Topics).map(|reply| reply.head)
            && topics.is_empty()
        {
            let store = &self.settings.mail.store;
            note(&format!("the store `{store}` is empty, and there are messages in .fmail/topics"));
            advise(&format!("`fmail store copy --from files --to {store}` brings them over"));
        }
    }

    fn session_here(&self, agent: AgentName) -> Result<Session> {
        let operations = Arc::new(Operations::new(self.store()?, Arc::new(SystemClock)));
        Ok(Session { operations: operations.clone(), local: Local::Open(operations), context: context(agent) })
    }

    fn session_served(&self, agent: AgentName, daemon: Daemon, local: Local) -> Session {
        Session { operations: Arc::new(daemon), local, context: context(agent) }
    }
}

fn context(agent: AgentName) -> Context {
    Context { host: host(), ..Context::local(agent) }
}

fn open(project: &Project, settings: &Settings) -> Result<Arc<dyn Store>> {
    open_store(project, settings, reporter(), Serving::Cli)
}

/// An agent in a project, able to run operations.
pub(crate) struct Session {
    /// Where operations run: here, or at the project's daemon.
    pub(crate) operations: Arc<dyn Client>,
    /// What there is to go on with when a daemon is lost.
    pub(crate) local: Local,
    pub(crate) context: Context,
}

/// The operations in this process.
#[derive(Clone)]
pub(crate) enum Local {
    /// They are at hand.
    Open(Arc<Operations>),
    /// The store can be opened here; a daemon has it open, so it has not been.
    Openable(Arc<(Project, Settings)>),
    /// The store lives in the daemon's process.
    Never,
}

impl Local {
    /// The operations, opened when that is needed; nothing where that cannot be.
    pub(crate) fn operations(&mut self) -> Result<Option<Arc<Operations>>> {
        match self {
            Local::Open(operations) => Ok(Some(operations.clone())),
            Local::Openable(place) => {
                let operations = Arc::new(Operations::new(open(&place.0, &place.1)?, Arc::new(SystemClock)));
                *self = Local::Open(operations.clone());
                Ok(Some(operations))
            }
            Local::Never => Ok(None),
        }
    }
}

impl Session {
    /// Runs an operation to its answer.
    ///
    /// Without any runtime: the built-in stores do their work in the calling thread, and a `send` must cost little more
    /// than the start of its process.
    pub(crate) fn call(&self, request: Request) -> Result<Reply> {
        block_on(self.operations.call(&self.context, request))
    }

    /// Whether a daemon runs the operations.
    pub(crate) fn is_served(&self) -> bool {
        !matches!(self.local, Local::Open(_))
    }

    /// Notes that the agent is there; nothing where the daemon does that.
    pub(crate) async fn touch(&self) -> Result<()> {
        match &self.local {
            Local::Open(operations) => operations.touch(&self.context).await,
            Local::Openable(_) | Local::Never => Ok(()),
        }
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use serde_json::{Value, json};

    use super::*;

    /// A project on a store that is not built in. (The configuration does not name one that there is not.)
    fn place(root: &std::path::Path) -> Place {
        let environment = Environment::new(root, Default::default());
        let project = Project::discover(&environment).unwrap();
        let mut settings = Settings::default();
        settings.mail.store = "of-a-plugin".into();
        settings.mail.transports = vec!["unix".into()];
        Place { environment, project, settings }
    }

    fn alice() -> AgentName {
        "alice".parse().unwrap()
    }

    #[test]
    fn a_store_that_is_not_built_in_is_reached_through_the_daemon_that_answers() {
        let root = tempfile::tempdir().unwrap();
        let place = place(root.path());
        std::fs::create_dir(place.project.fmail_dir()).unwrap();
        let listener = UnixListener::bind(place.project.fmail_dir().join("forged.sock")).unwrap();
        let daemon = thread::spawn(move || {
            let project = json!({"id": "p", "created": "2026-01-10T15:00:00Z"});
            let hello =
                json!({"version": "0.1.0", "protocol": 1, "operations": [], "project": project, "store_id": ""});
            // One connection to see whether it is there, one for the question.
            for _ in 0..2 {
                let mut stream = listener.accept().unwrap().0;
                for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
                    let asked: Value = serde_json::from_str(&line).unwrap();
                    assert_eq!(asked["store"], "of-a-plugin");
                    let answer = json!({"ok": true, "hello": hello, "topics": [], "req_id": asked["req_id"]});
                    stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
                }
            }
        });
        let session = place.session(alice()).unwrap();
        assert!(session.is_served());
        assert_eq!(session.call(Request::Topics).unwrap().head, Response::Topics(Vec::new()));
        daemon.join().unwrap();
    }

    #[test]
    fn a_store_that_is_not_built_in_is_opened_here_when_no_daemon_answers() {
        let root = tempfile::tempdir().unwrap();
        let error = place(root.path()).session(alice()).err().expect("there is no such store to open");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("of-a-plugin"), "{error}");
    }
}
