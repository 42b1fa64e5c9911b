//! The command line as a tree: help, man pages, completions, `--robot-help` and the parser all come from here.

use std::ffi::OsString;
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
pub(crate) struct Fmail {
    /// Describe fmail, or the command before it, as one JSON object for programs
    // Answered before the arguments are parsed; it stands here so that help and completions know it.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) robot_help: bool,

    /// Override a setting for this call; `fmail config show` lists the keys
    #[arg(long, global = true, display_order = 900, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

// Deferred: the arguments of a command are built only when that command was chosen, because every `send` pays for them.
#[derive(Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Send a message to a topic or an agent
    ///
    /// Prints the id of the stored message. When the command succeeds, the message survives a power cut (unless
    /// mail.durability says otherwise).
    Send(send::Send),
    /// Show stored messages, the newest last
    ///
    /// Shows the newest messages, the oldest of them first. Looking changes nothing.
    #[command(visible_alias = "logs")]
    Log(log::Log),
    /// Print messages as they arrive
    ///
    /// Prints each message when it arrives. Ends with 0 on timeout, when the count is reached, and when interrupted. A
    /// project that does not exist yet is waited for.
    Watch(watch::Watch),
    /// List the agents of this project
    ///
    /// An agent is active when it was seen within 90 seconds, idle within 30 minutes, offline after that. Sending, watching,
    /// registering and setting a status count as being seen, at most once a minute.
    Who(who::Who),
    /// Claim an agent name that nobody has
    ///
    /// Prints the name alone. Of several that claim one name at the same time exactly one gets it.
    Register(register::Register),
    /// Set, show or clear what you are doing
    ///
    /// Needs FMAIL_AGENT: a status belongs to a name that lasts.
    Status(status::Status),
    /// List the topics with their activity
    ///
    /// Lists the topics by name. Mailboxes are not topics.
    #[command(visible_alias = "topic")]
    Topics(topics::Topics),
    /// Remove old messages
    ///
    /// Removes messages by the time that stands in them, from topics and mailboxes alike.
    Gc(gc::Gc),
    /// Create a project in the current directory, or set its id
    ///
    /// Rarely needed: the first message creates the project. Prints the project's id.
    Init(init::Init),
    /// Show who you are, and which project this is and why
    ///
    /// Shows under which name you act, which project this directory belongs to, and by which rule.
    Whoami(whoami::Whoami),
    /// Show the configuration and where it comes from
    ///
    /// Later sources win: defaults, system file, user file, project file, FMAIL_… variables, --set.
    Config(config::Config),
    /// Look after stored files that cannot be understood
    ///
    /// Broken files are skipped and told; they never stop a command, and they are moved only when you say so.
    Quarantine(quarantine::Quarantine),
    /// Print a completion script for a shell
    ///
    /// Prints the script; put it where your shell looks for completions.
    Completions(completions::Completions),
}

/// The whole tree, for the tools that print it.
pub fn command() -> clap::Command {
    Fmail::command().after_long_help(exit_codes())
}

/// The tree for these arguments. What only help shows is left out unless help may be wanted: every `send` would pay.
pub(crate) fn command_for(args: &[OsString]) -> clap::Command {
    let help = args.len() < 2 || args.iter().any(|arg| arg == "help" || arg == "--help");
    if help { command() } else { Fmail::command() }
}

/// The exit codes as the end of the long help.
fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n    0  done; for watch also: timeout, count reached, interrupted");
    for kind in ErrorKind::ALL {
        let lines = wrapped(&format!("{}: {}", kind.code(), kind.meaning()), 72).join("\n       ");
        // Writing into a string does not fail.
        let _ = write!(text, "\n  {:>3}  {lines}", kind.exit_code());
    }
    text
}

/// The text in lines of at most this width. Clap would wrap too, but under the margin and not under the text.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => line.extend([" ", word]),
            _ => lines.push(word.to_string()),
        }
    }
    lines
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
