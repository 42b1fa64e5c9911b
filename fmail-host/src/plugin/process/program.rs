//! What is run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Result};

/// Names another program than `fmail` to load libraries in a child.
const PLUGIN_HOST: &str = "FMAIL_PLUGIN_HOST";

/// Variables of ours that a child may see. Every other `FMAIL_…` is a setting, and may be a token or a password; what a
/// plugin needs of them is in its envelope.
const PASSED: [&str; 6] =
    ["FMAIL_AGENT", "FMAIL_ROOT", "FMAIL_PROJECT", "FMAIL_PLUGIN_PATH", "FMAIL_PLUGIN_TRACE", PLUGIN_HOST];

/// A program that speaks the plugin protocol as lines on its standard input and output.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name of the instance, for messages.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs, if that directory is there; otherwise in `/`.
    pub data_dir: Option<PathBuf>,
    /// How long it may take to greet, to be created and to be destroyed, and how long it may leave unread what it is sent.
    pub deadline: Duration,
    /// How long a program that has been asked to end may take before it is told by a signal, and then killed.
    pub grace: Duration,
}

impl Program {
    /// A program that speaks the protocol itself.
    pub fn new(name: &str, command: Vec<OsString>, deadline: Duration) -> Result<Self> {
        if command.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                "the command is empty; a program and its arguments are needed",
            )
            .context("plugin", name)
            .help(format!("mail.plugin.{name}.command = [\"python3\", \"/path/to/store.py\"]")));
        }
        Ok(Program { name: name.into(), command, data_dir: None, deadline, grace: Duration::from_secs(2) })
    }

    /// A library, loaded by `fmail plugin-host` in a child.
    pub fn library(name: &str, file: &Path, deadline: Duration) -> Result<Self> {
        let command = vec![plugin_host()?.into(), "plugin-host".into(), "--".into(), file.into()];
        Program::new(name, command, deadline)
    }

    /// Whether the child sees this variable.
    pub(super) fn passes(&self, variable: &OsStr) -> bool {
        let name = variable.to_string_lossy();
        !name.starts_with("FMAIL_") || PASSED.contains(&&*name) || name.starts_with("FMAIL_TEST_")
    }

    /// Where the child runs.
    pub(super) fn directory(&self) -> &Path {
        self.data_dir.as_deref().filter(|directory| directory.is_dir()).unwrap_or(Path::new("/"))
    }

    /// The command as one reads it.
    pub(in crate::plugin) fn shown(&self) -> String {
        self.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// The `fmail` that loads libraries in a child: this program if it is fmail, otherwise the one beside it.
fn plugin_host() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(PLUGIN_HOST) {
        return Ok(named.into());
    }
    let this = std::env::current_exe().map_err(|error| Error::io("cannot tell which program this is", &error))?;
    if this.file_name().is_some_and(|name| name == "fmail") {
        return Ok(this);
    }
    let beside = this.with_file_name("fmail");
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("a library in a process of its own is loaded by fmail, and {} is not there", beside.display()),
    )
    .help(format!("install fmail beside {}, or name it in {PLUGIN_HOST}", this.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_their_secrets_are_not_passed_on() {
        let program = Program::new("x", vec!["true".into()], Duration::from_secs(1)).unwrap();
        for hidden in ["FMAIL_TCP__TOKEN", "FMAIL_PLUGIN__SQL__CONFIG__PASSWORD", "FMAIL_TOKEN", "FMAIL_STORE"] {
            assert!(!program.passes(OsStr::new(hidden)), "{hidden}");
        }
        for passed in ["PATH", "HOME", "PYTHONPATH", "FMAIL_AGENT", "FMAIL_PLUGIN_PATH", "XFMAIL_TOKEN"] {
            assert!(program.passes(OsStr::new(passed)), "{passed}");
        }
    }

    #[test]
    fn without_a_data_directory_it_runs_in_the_root() {
        let mut program = Program::new("x", vec!["true".into()], Duration::from_secs(1)).unwrap();
        assert_eq!(program.directory(), Path::new("/"));
        program.data_dir = Some("/no/such/directory".into());
        assert_eq!(program.directory(), Path::new("/"));
        program.data_dir = Some(std::env::temp_dir());
        assert_eq!(program.directory(), std::env::temp_dir());
    }
}
