//! The command line as a tree: help, man pages, completions, `--robot-help` and the parser all come from here.

use std::fmt::Write;

use clap::{CommandFactory, Parser, Subcommand};
use fmail_api::ErrorKind;

use crate::commands::{
    completions, config, gc, init, log, quarantine, register, send, status, topics, watch, who, whoami,
};

/// Agents send and receive messages through topics and direct messages
///
/// A topic is a channel that anyone in the project may write and read; `@name` is the mailbox of one agent. Messages are
/// JSON files under `.fmail/` in the project's directory, created by the first message. Set FMAIL_AGENT to your name.
#[derive(Parser)]
#[command(name = "fmail", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_long_help = exit_codes())]
pub(crate) struct Fmail {
    /// Describe fmail, or the command before it, as one JSON object for programs
    // Answered before the arguments are parsed; it stands here so that help and completions know it.
    #[arg(long, global = true)]
    pub(crate) robot_help: bool,

    /// Override a setting for this call; `fmail config show` lists the keys
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

// Deferred: the arguments of a command are built only when that command was chosen, because every `send` pays for them.
#[derive(Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Send a message to a topic or an agent
    Send(send::Send),
    /// Show stored messages, the newest last
    #[command(visible_alias = "logs")]
    Log(log::Log),
    /// Print messages as they arrive
    Watch(watch::Watch),
    /// List the agents of this project
    Who(who::Who),
    /// Claim an agent name that nobody has
    Register(register::Register),
    /// Set, show or clear what you are doing
    Status(status::Status),
    /// List the topics with their activity
    #[command(visible_alias = "topic")]
    Topics(topics::Topics),
    /// Remove old messages
    Gc(gc::Gc),
    /// Create a project in the current directory, or set its id
    Init(init::Init),
    /// Show who you are, and which project this is and why
    Whoami(whoami::Whoami),
    /// Show the configuration and where it comes from
    Config(config::Config),
    /// Look after stored files that cannot be understood
    Quarantine(quarantine::Quarantine),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

/// The whole tree, for the tools that print it.
pub fn command() -> clap::Command {
    Fmail::command()
}

/// The exit codes as the end of the long help.
fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n    0  done; for watch also: timeout, count reached, interrupted");
    for kind in ErrorKind::ALL {
        // Writing into a string does not fail.
        let _ = write!(text, "\n  {:>3}  {}: {}", kind.exit_code(), kind.code(), kind.meaning());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_long_help_names_every_exit_code() {
        let help = command().render_long_help().to_string();
        for kind in ErrorKind::ALL {
            assert!(help.contains(kind.code()), "{kind}");
        }
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        let mut tree = command();
        tree.build();
        for one in tree.get_subcommands().filter(|one| one.get_name() != "help") {
            let help = one.clone().render_long_help().to_string();
            assert!(help.contains("Examples:\n") && help.contains("fmail "), "{}", one.get_name());
        }
    }
}
