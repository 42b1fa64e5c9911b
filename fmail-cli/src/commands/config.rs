//! `fmail config`

use clap::{Args, Subcommand};
use fmail_host::{ConfigFile, config_places};
use serde_json::{Map, Value, json};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output};
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail config show --origin", "every setting and where it comes from"),
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
    /// Print where configuration files are looked for
    Path,
}

impl Config {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let mut output = Output::stdout();
        match self.action {
            Action::Show { origin, json: true } => show_json(place, origin, &mut output)?,
            Action::Show { origin, json: false } => show(place, origin, &mut output)?,
            Action::Path => path(place, &mut output)?,
        }
        output.flush()
    }
}

fn show(place: &Place, origin: bool, output: &mut Output) -> Outcome {
    for entry in place.settings.entries() {
        let mut line = format!("{} = {}", entry.key, entry.value);
        if origin {
            line.push_str(&format!("  # {}", entry.origin));
        }
        if !entry.trusted {
            line.push_str("  # not acted on: a project's file may not make fmail dial");
        }
        output.line(line.trim_end())?;
    }
    Ok(())
}

fn show_json(place: &Place, origin: bool, output: &mut Output) -> Outcome {
    let value = |entry: fmail_host::Entry| {
        let shown = match origin {
            true => json!({"value": entry.value, "origin": entry.origin.to_string(), "trusted": entry.trusted}),
            false => Value::String(entry.value),
        };
        (entry.key.to_string(), shown)
    };
    output.json(&place.settings.entries().into_iter().map(value).collect::<Map<String, Value>>())
}

fn path(place: &Place, output: &mut Output) -> Outcome {
    for (file, path, exists) in config_places(&place.environment, Some(&place.project)) {
        let whose = match file {
            ConfigFile::System => "system",
            ConfigFile::User => "user",
            ConfigFile::Project => "project",
        };
        let state = if exists { "" } else { " (not there)" };
        output.line(&format!("{whose:8} {}{state}", path.display()))?;
    }
    Ok(())
}
