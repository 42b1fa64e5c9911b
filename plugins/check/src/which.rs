//! Which plugin is meant.

use std::process::Command;

use clap::Args;
use fmail_api::{Error, Result};
use fmail_host::plugin::Chosen;
use fmail_host::{Environment, Project};

/// The plugin, as the command line names it.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// Its name, or the path of its file
    pub plugin: String,

    /// A setting, such as config.path=/tmp/x for one of the plugin's own
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Where the code runs, none or process; default: as configured
    #[arg(long, value_name = "WHERE")]
    pub isolation: Option<String>,
}

impl Which {
    /// Finds it, with its settings.
    pub fn chosen(&self) -> Result<Chosen> {
        let environment = Environment::from_process()?;
        let project = Project::discover(&environment)?;
        let mut overrides = Vec::new();
        for text in &self.set {
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| Error::invalid(format!("--set {text} has no value")).help("write --set KEY=VALUE"))?;
            overrides.push((key.trim().to_string(), value.to_string()));
        }
        overrides.extend(self.isolation.iter().map(|word| ("isolation".to_string(), word.clone())));
        Chosen::find(&environment, Some(&project), &overrides, &self.plugin)
    }

    /// This program, to be started with these words for the same plugin.
    pub fn command(&self, word: &str) -> Result<Command> {
        let this = std::env::current_exe().map_err(|error| Error::io("cannot tell which program this is", &error))?;
        let mut command = Command::new(this);
        // What a case says when it fails is its sentence, not where in the suite it stands.
        command.arg(word).env("RUST_BACKTRACE", "0");
        self.set.iter().for_each(|set| _ = command.args(["--set", set]));
        self.isolation.iter().for_each(|isolation| _ = command.args(["--isolation", isolation]));
        command.arg("--").arg(&self.plugin);
        Ok(command)
    }
}
