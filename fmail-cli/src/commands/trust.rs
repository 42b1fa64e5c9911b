//! `fmail trust`

use clap::Args;
use fmail_api::Error;
use fmail_host::{Environment, Project, Review, Standing, TrustNotes, Trusted};
use serde_json::{Value, json};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note, report};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail trust --show", "what the project's file would make fmail do, if you trusted it"),
    example("fmail trust", "trust it as it stands; void when it changes"),
    example("fmail trust --revoke", "no longer"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Trust {
    /// Only show what the file would make fmail do, and whether it is trusted
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    show: bool,

    /// Forget that this project is trusted
    #[arg(long, conflicts_with = "list")]
    revoke: bool,

    /// List the projects that are trusted
    #[arg(long)]
    list: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Trust {
    /// Runs without the settings: a configuration that is refused is what leads here.
    pub(crate) fn run(self, environment: &Environment) -> Outcome {
        let mut output = Output::stdout();
        if self.list {
            list(environment, self.json, &mut output)?;
        } else {
            let project = Project::discover(environment)?;
            match self.revoke {
                true => revoke(environment, &project, self.json, &mut output)?,
                false => review(environment, &project, !self.show, self.json, &mut output)?,
            }
        }
        output.flush()
    }
}

/// Shows what the file asks for, and trusts it when that is wanted.
fn review(environment: &Environment, project: &Project, trust: bool, json: bool, output: &mut Output) -> Outcome {
    let review = Review::of(environment, project)?;
    review.mistakes.iter().for_each(report);
    let noted = if trust { Some(review.trust(environment)?) } else { None };
    let standing = if noted.is_some() { Standing::Trusted } else { review.standing };
    if json {
        return output.json(&json!({
            "root": review.root.display().to_string(),
            "file": review.file.display().to_string(),
            "sha256": review.sha256,
            "standing": word(standing),
            "asks": review.asks.iter().map(|ask| json!({
                "key": ask.key, "value": ask.value, "line": ask.line, "what": ask.what,
            })).collect::<Vec<Value>>(),
            "mistakes": review.mistakes,
        }));
    }
    for ask in &review.asks {
        let file = review.file.display();
        output.line(&format!("{file}:{}: {} = {}", ask.line, ask.key, ask.value))?;
        output.line(&format!("    fmail would {}", ask.what))?;
    }
    if review.asks.is_empty() {
        output.line(&format!("{}: nothing in it needs trust", review.file.display()))?;
    }
    output.line(&match standing {
        Standing::Trusted => format!("trusted: {} (until it changes)", review.file.display()),
        Standing::Changed => "not trusted: the file has changed since it was".to_string(),
        Standing::Never => "not trusted; `fmail trust` trusts it as it stands".to_string(),
    })
}

fn revoke(environment: &Environment, project: &Project, json: bool, output: &mut Output) -> Outcome {
    let was = TrustNotes::of(environment).revoke(&project.root)?;
    if json {
        return output.json(&json!({"root": project.root.display().to_string(), "revoked": was}));
    }
    if !was {
        note("this project was not trusted");
    }
    output.line(&format!("not trusted: {}", project.root.display()))
}

fn list(environment: &Environment, json: bool, output: &mut Output) -> Outcome {
    let all = TrustNotes::of(environment).all()?;
    for trusted in &all {
        let state = state(trusted);
        if json {
            let mut value = serde_json::to_value(trusted)
                .map_err(|error| Error::internal(format!("a note has no JSON form: {error}")))?;
            // Shown, where the note itself holds every byte.
            for (key, path) in [("root", &trusted.root), ("file", &trusted.file)] {
                value[key] = path.display().to_string().into();
            }
            value["standing"] = state.into();
            output.json(&value)?;
        } else {
            output.line(&format!("{}  {state}, since {}", trusted.file.display(), trusted.at))?;
        }
    }
    if all.is_empty() && !json {
        note("no project is trusted");
    }
    Ok(())
}

/// What became of a file that was trusted.
fn state(trusted: &Trusted) -> &'static str {
    match trusted.current() {
        Ok(true) => word(Standing::Trusted),
        Ok(false) => word(Standing::Changed),
        Err(_) => "gone",
    }
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Trusted => "trusted",
        Standing::Changed => "changed",
        Standing::Never => "untrusted",
    }
}
