//! `fmail plugin`

mod list;
mod manifest;
mod new;
mod path;
mod template;
mod tool;

use clap::{Args, Subcommand, ValueEnum};
use fmail_host::{Environment, Project};

pub(crate) use manifest::PluginManifest;

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output};
use crate::session::overrides;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail plugin list", "what is built in, what is found, and what is refused and why"),
    example("fmail plugin inspect sqlite", "what a plugin says about itself; run in a child process"),
    example("fmail plugin new mystore --kind store --lang c", "a whole small project that builds"),
    example("fmail plugin check ./libfmail_mystore.so", "hold it to every rule of the contract"),
    example("fmail plugin bench ./libfmail_mystore.so", "what it costs, beside the store in memory"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Plugin {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List what is built in and what is found, shadowed or refused
    ///
    /// Nothing is loaded or run for it: of a program only its form is known.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print where plugins are looked for, in their order
    Path {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a plugin says about itself
    ///
    /// The plugin is loaded in a child process, so that one that crashes or prints harms nobody.
    Inspect {
        /// Its name, or the path of its file
        plugin: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Hold a plugin to the rules of the contract; exit 1 when it breaks one
    ///
    /// Each case runs in a process of its own, on a project of its own: a crash or a hang fails that case only. The rules
    /// are those of docs/plugins/contract.md.
    Check {
        /// Its name, or the path of its file
        plugin: String,

        /// Only the cases of this rule, or this case
        #[arg(long, value_name = "RULE|CASE")]
        only: Vec<String>,

        /// List the cases that would run
        #[arg(long)]
        list: bool,

        /// Where the code runs; default: as configured
        #[arg(long, value_name = "WHERE")]
        isolation: Option<Isolation>,

        /// A relay keeps all projects of its host in step: check Y1 to Y5 with two and three of them
        #[arg(long)]
        pair: bool,

        /// Print JSON, a line for each case and one for all
        #[arg(long)]
        json: bool,
    },
    /// Measure a store plugin beside the built-in store in memory
    Bench {
        /// Its name, or the path of its file
        plugin: String,

        /// Where the code runs; default: as configured
        #[arg(long, value_name = "WHERE")]
        isolation: Option<Isolation>,

        /// How many messages each measurement handles
        #[arg(long, default_value_t = 5_000, value_name = "N")]
        messages: u32,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a small plugin that builds and passes `fmail plugin check`
    New {
        /// Its name: [a-z0-9-], 1 to 32, a letter first
        name: String,

        /// What it is
        #[arg(long, default_value = "store")]
        kind: new::Kind,

        /// What it is written in
        #[arg(long, default_value = "c")]
        lang: new::Lang,

        /// Where to; default: a directory of the plugin's name
        #[arg(long, value_name = "DIR")]
        dir: Option<std::path::PathBuf>,

        /// The directory of fmail's sources, for Rust; default: FMAIL_PLUGIN_SDK
        #[arg(long, value_name = "DIR")]
        sdk: Option<std::path::PathBuf>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Where the code of a plugin runs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    /// In the process that uses it
    None,
    /// In a child process
    Process,
}

impl Plugin {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let mut output = Output::stdout();
        match self.action {
            Action::List { json } => {
                list::run(environment, &Project::discover(environment)?, &overrides(set)?, json, &mut output)?;
            }
            Action::Path { json } => {
                path::run(environment, &Project::discover(environment)?, &overrides(set)?, json, &mut output)?;
            }
            Action::Inspect { plugin, json } => manifest::inspect(&plugin, set, json, &mut output)?,
            Action::Check { plugin, only, list, isolation, pair, json } => {
                let mut words = vec!["check".into(), plugin];
                only.into_iter().for_each(|only| words.extend(["--only".into(), only]));
                words.extend([(list, "--list"), (pair, "--pair"), (json, "--json")].into_iter().filter_map(tool::flag));
                return tool::run(words, isolation, set);
            }
            Action::Bench { plugin, isolation, messages, json } => {
                let mut words = vec!["bench".into(), plugin, "--messages".into(), messages.to_string()];
                words.extend([(json, "--json")].into_iter().filter_map(tool::flag));
                return tool::run(words, isolation, set);
            }
            Action::New { name, kind, lang, dir, sdk, json } => {
                new::New { name, kind, lang, dir, sdk, json }.run(environment, &mut output)?;
            }
        }
        output.flush()
    }
}
