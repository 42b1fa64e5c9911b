//! What can be written behind `forged`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use fmail_api::parse_duration;

/// The daemon of fmail: serves a project to its agents, in the foreground, until it is told to end
#[derive(Parser)]
#[command(name = "forged", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub action: Option<Action>,

    /// How to serve.
    #[command(flatten)]
    pub serve: Serve,
}

/// How to serve.
#[derive(Args)]
pub struct Serve {
    /// The directories of the projects; without any, the project of the current directory (or FMAIL_ROOT)
    #[arg(value_name = "ROOT")]
    pub roots: Vec<PathBuf>,

    /// Serve no project of its own, only those that clients name by their paths; needs a transport plugin in
    /// mail.transports
    #[arg(long, conflicts_with_all = ["roots", "tcp"])]
    pub no_project: bool,

    /// Listen on TCP too, for all the projects; without an address on 127.0.0.1:7463
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true,
        default_missing_value = DEFAULT_MISSING)]
    pub tcp: Option<SocketAddr>,

    /// Listen beyond this machine although nothing protects the connection: whoever reaches the address can read and
    /// send everything
    #[arg(long, requires = "tcp")]
    pub insecure: bool,

    /// A watch to which nothing happens gets a sign of life after this time
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub ping_after: Duration,

    /// How much to tell on standard error: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: tracing::Level,
}

/// [`fmail_transports::tcp::DEFAULT_ADDRESS`] as clap wants it.
const DEFAULT_MISSING: &str = "127.0.0.1:7463";

/// What can be done beside serving.
#[derive(Subcommand)]
pub enum Action {
    /// Tell whether a daemon serves the project; exit code 1 when none does
    Status(Control),
    /// End the daemon that serves the project, and wait until it has ended
    Stop(Control),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// Which script is wanted.
#[derive(Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// The whole tree, for the tools that print it.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Which daemon is meant.
#[derive(Args)]
pub struct Control {
    /// The directory of the project; without it, the project of the current directory (or FMAIL_ROOT)
    #[arg(value_name = "ROOT")]
    pub root: Option<PathBuf>,

    /// The daemon that serves no project of its own
    #[arg(long, conflicts_with = "root")]
    pub no_project: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use fmail_transports::tcp::DEFAULT_ADDRESS;

    use super::*;

    #[test]
    fn the_definition_is_sound_and_the_default_address_the_documents() {
        command().debug_assert();
        assert_eq!(DEFAULT_MISSING.parse::<SocketAddr>().unwrap(), DEFAULT_ADDRESS);
        assert_eq!(Arguments::parse_from(["forged", "--tcp"]).serve.tcp, Some(DEFAULT_ADDRESS));
        let other = Arguments::parse_from(["forged", "--tcp=[::1]:1", "a", "b"]).serve;
        assert_eq!((other.tcp.unwrap().port(), other.roots.len()), (1, 2));
    }
}
