//! Measures plugins, and prints each figure as `<what>\t<seconds>`.
//!
//! `fmail-cost calls DIR BATCHES`, `fmail-cost stores DIR MILLISECONDS TURNS MESSAGES`, `fmail-cost fill FROM TO STORE`,
//! `fmail-cost query DATABASE SQL`. Plugins are found in FMAIL_PLUGIN_PATH, and FMAIL_PLUGIN_HOST is the `fmail` that loads
//! them in a child.

mod calls;
mod fill;
mod json;
mod place;
mod query;
mod stores;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fmail_api::{Error, Result};

use place::Place;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["calls", directory, batches] => calls::run(&Place::new(Path::new(directory))?, number(batches)?),
        ["stores", directory, milliseconds, turns, messages] => {
            let span = Duration::from_millis(number(milliseconds)?.into());
            let extent = stores::Extent { span, turns: number(turns)?.max(1), messages: number(messages)? };
            stores::run(Path::new(directory), &extent)
        }
        ["fill", from, to, store] => fill::run(Path::new(from), Path::new(to), store),
        ["query", database, sql] => query::run(Path::new(database), sql),
        _ => Err(Error::invalid(
            "expected `calls DIR BATCHES`, `stores DIR MILLISECONDS TURNS MESSAGES`, `fill FROM TO STORE` or \
             `query DATABASE SQL`",
        )),
    }
}

fn number(text: &str) -> Result<u32> {
    text.parse().map_err(|error| Error::invalid(format!("{text:?} is no number: {error}")))
}

/// Prints a figure.
fn say(what: &str, time: Duration) {
    println!("{what}\t{:.9}", time.as_secs_f64());
}
