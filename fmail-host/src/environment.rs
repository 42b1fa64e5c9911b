//! What a command learns from the process that it runs in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fmail_api::{AgentName, Error, ErrorKind, Result};

/// The directory and the variables that decide project, configuration and agent.
///
/// A value and not the process's own state, so that tests run side by side and a daemon can answer for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The current directory, absolute.
    pub cwd: PathBuf,
    /// The environment variables.
    pub vars: BTreeMap<String, String>,
    /// Where the system's configuration file lies. A field and not a variable: whoever can set variables for another
    /// user's command should not be able to swap the administrator's file.
    pub system_dir: PathBuf,
}

impl Environment {
    /// An environment with this directory and these variables.
    pub fn new(cwd: impl Into<PathBuf>, vars: BTreeMap<String, String>) -> Self {
        Environment { cwd: cwd.into(), vars, system_dir: PathBuf::from("/etc/fmail") }
    }

    /// The environment of this process.
    ///
    /// A variable of ours that is not UTF-8 is an error; one of anybody else is left out.
    pub fn from_process() -> Result<Self> {
        let cwd = std::env::current_dir().map_err(|error| {
            Error::new(ErrorKind::InvalidProject, format!("the current directory cannot be used: {error}"))
                .help("change into a directory that exists")
        })?;
        let mut vars = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => {
                    vars.insert(name, value);
                }
                (Ok(name), Err(value)) if name.starts_with("FMAIL_") => {
                    return Err(Error::new(
                        ErrorKind::InvalidConfig,
                        format!("{name} is {value:?}, which is not UTF-8 text"),
                    ));
                }
                _ => {}
            }
        }
        Ok(Environment::new(cwd, vars))
    }

    /// The value of a variable, also when it is empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str)
    }

    /// The directory that a variable names; one that is relative does not count, as the XDG specification demands.
    pub(crate) fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The user's home.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.absolute("HOME")
    }
}

/// Who acts, as `FMAIL_AGENT` says. A name that is set and wrong is an error: acting under another one would be a lie.
pub fn agent_name(environment: &Environment) -> Result<Option<AgentName>> {
    environment.var("FMAIL_AGENT").map(|name| name.parse().map_err(from_variable)).transpose()
}

/// Says that the name came from the variable; the parser cannot know.
fn from_variable(error: Error) -> Error {
    let named = Error::new(error.kind(), error.message()).context("variable", "FMAIL_AGENT");
    match error.help_text() {
        Some(help) => named.help(help),
        None => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(value: Option<&str>) -> Result<Option<AgentName>> {
        let vars = value.map(|value| ("FMAIL_AGENT".to_string(), value.to_string()));
        agent_name(&Environment::new("/", vars.into_iter().collect()))
    }

    #[test]
    fn the_agent_is_canonical_absent_or_an_error() {
        assert_eq!(agent(None).unwrap(), None);
        assert_eq!(agent(Some(" Coder-1 ")).unwrap().unwrap().as_str(), "coder-1");
        for wrong in ["", "a b", "a/b"] {
            let error = agent(Some(wrong)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidAgent);
            assert!(error.to_string().starts_with("FMAIL_AGENT: "), "{error}");
            assert!(error.help_text().is_some());
        }
    }
}
