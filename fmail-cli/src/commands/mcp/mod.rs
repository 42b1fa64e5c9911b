//! `fmail mcp`

mod call;
mod configuration;
mod read;
mod serve;
mod tools;

use clap::{Args, Subcommand};
use fmail_host::Environment;

use crate::examples::{Example, example, help};
use crate::output::Outcome;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail mcp install claude", "sessions in this project get the tools; nothing else has to run"),
    example("fmail mcp install codex --user --http", "in all projects, from the server that forged runs"),
    example("fmail mcp tools", "what the server at AGENT_MAIL_BASE_URL offers"),
    example("fmail mcp call health_check", "call a tool"),
    example("fmail mcp call ensure_project --json '{\"human_key\":\"/src/app\"}'", "with arguments; prints JSON"),
    example("fmail mcp read resource://agents/src-app", "read a resource"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Mcp {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the tools of a server
    Tools(tools::Tools),
    /// Call a tool and print its result
    ///
    /// Prints what the tool gives back, and nothing when it fails: then the exit code tells the kind of failure.
    Call(call::Call),
    /// Read a resource
    Read(read::Read),
    /// Be an MCP server on standard input and output, for clients that start theirs themselves
    ///
    /// Needs no daemon and no set-up. Projects are named by their absolute paths, as the tools take them. Ends when its input
    /// does, after the last answer.
    Serve(serve::Serve),
    /// Print the entry for an agent's configuration
    Config(configuration::Config),
    /// Write the entry into an agent's configuration
    ///
    /// What is in the file stays as it is written, and `uninstall` brings it back to the byte.
    Install(configuration::Install),
    /// Take our entry out again, and nothing else
    Uninstall(configuration::Uninstall),
    /// Tell which agents have our entry; exit 1 when none has
    Status(configuration::Status),
}

impl Mcp {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        match self.action {
            Action::Tools(command) => command.run(environment, set),
            Action::Call(command) => command.run(environment, set),
            Action::Read(command) => command.run(environment, set),
            Action::Serve(command) => command.run(environment, set),
            Action::Config(command) => command.run(environment, set),
            Action::Install(command) => command.run(environment, set),
            Action::Uninstall(command) => command.run(environment),
            Action::Status(command) => command.run(environment),
        }
    }
}
