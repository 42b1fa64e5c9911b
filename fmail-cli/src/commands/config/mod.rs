//! `fmail config`

mod check;
mod path;
mod schema;
mod show;

use clap::{Args, Subcommand};
use fmail_host::{Environment, Project};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output};
use crate::session::{Place, overrides};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail config show --origin", "every setting and where it comes from"),
    example("fmail config check", "everything that is wrong, also in the sections of plugins"),
    example("fmail config path", "where configuration files are looked for"),
    example("fmail --set mail.durability=os send task hi", "a setting for one call"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print every setting
    Show {
        /// Also print where each value comes from
        #[arg(long)]
        origin: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell everything that is wrong with the configuration; exit 14 when something is
    ///
    /// Also checks the sections of plugins against what the plugins say they take, as far as that can be read without
    /// running them.
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the configuration, with the sections of the plugins that are found
    Schema {
        /// Print JSON on one line
        #[arg(long)]
        json: bool,
    },
    /// Print where configuration files are looked for; also when one of them is broken
    Path {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(crate) fn run(self, environment: Environment, set: &[String]) -> Outcome {
        let mut output = Output::stdout();
        match self.action {
            Action::Show { origin, json } => show::run(&Place::find(environment, set)?, origin, json, &mut output)?,
            Action::Check { json } => {
                check::run(&environment, &Project::discover(&environment)?, &overrides(set)?, json, &mut output)?;
            }
            Action::Schema { json } => {
                schema::run(&environment, &Project::discover(&environment)?, &overrides(set)?, json, &mut output)?;
            }
            Action::Path { json } => path::run(&environment, &Project::discover(&environment)?, json, &mut output)?,
        }
        output.flush()
    }
}
