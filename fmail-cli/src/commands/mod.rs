//! One file per command: its arguments, its examples, and what it does.

pub(crate) mod ack;
pub(crate) mod archive;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod delete;
pub(crate) mod gc;
pub(crate) mod guard;
pub(crate) mod hook;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod log;
pub(crate) mod mark_read;
pub(crate) mod mark_unread;
pub(crate) mod mcp;
pub(crate) mod nudge;
pub(crate) mod plugin;
pub(crate) mod plugin_host;
pub(crate) mod quarantine;
pub(crate) mod read;
pub(crate) mod receipt;
pub(crate) mod register;
pub(crate) mod relay;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod reply;
pub(crate) mod reservations;
pub(crate) mod reserve;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod thread;
pub(crate) mod topics;
pub(crate) mod trust;
pub(crate) mod unarchive;
pub(crate) mod watch;
pub(crate) mod who;
pub(crate) mod whoami;

use fmail_host::Environment;

use crate::definition::Command;
use crate::examples::Example;
use crate::output::Outcome;
use crate::session::Place;

/// Runs a command; `set` are the settings that the command line overrides.
pub(crate) fn execute(command: Command, environment: Environment, set: Vec<String>) -> Outcome {
    match command {
        Command::Completions(command) => command.run(),
        Command::Init(command) => command.run(environment, &set),
        Command::Guard(command) => command.run(&environment, &set),
        Command::Hook(command) => command.run(&environment),
        Command::Mcp(command) => command.run(&environment, &set),
        Command::Config(command) => command.run(environment, &set),
        Command::Trust(command) => command.run(&environment),
        Command::Store(command) => command.run(&environment, &set),
        Command::Plugin(command) => command.run(&environment, &set),
        Command::PluginManifest(command) => command.run(&environment, &set),
        other => {
            let place = Place::find(environment, &set)?;
            match other {
                Command::Send(command) => command.run(&place),
                Command::Log(command) => command.run(&place),
                Command::Watch(command) => command.run(&place),
                Command::Who(command) => command.run(&place),
                Command::Register(command) => command.run(&place),
                Command::Status(command) => command.run(&place),
                Command::Topics(command) => command.run(&place),
                Command::Gc(command) => command.run(&place),
                Command::Inbox(command) => command.run(&place),
                Command::Check(command) => command.run(&place),
                Command::Count(command) => command.run(&place),
                Command::Read(command) => command.run(&place),
                Command::Peek(command) => command.run(&place),
                Command::Ack(command) => command.run(&place),
                Command::Archive(command) => command.run(&place),
                Command::Unarchive(command) => command.run(&place),
                Command::MarkRead(command) => command.run(&place),
                Command::MarkUnread(command) => command.run(&place),
                Command::Delete(command) => command.run(&place),
                Command::Reply(command) => command.run(&place),
                Command::Thread(command) => command.run(&place),
                Command::Receipt(command) => command.run(&place),
                Command::Reserve(command) => command.run(&place),
                Command::Release(command) => command.run(&place),
                Command::Renew(command) => command.run(&place),
                Command::Reservations(command) => command.run(&place),
                Command::Search(command) => command.run(&place),
                Command::Nudge(command) => command.run(&place),
                Command::Whoami(command) => command.run(&place),
                Command::Chat(command) => command.run(&place, &set),
                Command::Relay(command) => command.run(&place),
                Command::Quarantine(command) => command.run(&place),
                // Answered above, without settings.
                Command::Completions(_)
                | Command::Init(_)
                | Command::Guard(_)
                | Command::Hook(_)
                | Command::Mcp(_)
                | Command::Config(_)
                | Command::Store(_)
                | Command::Trust(_)
                | Command::Plugin(_)
                | Command::PluginManifest(_) => Ok(()),
            }
        }
    }
}

/// The examples of a command.
pub(crate) fn examples(command: &str) -> &'static [Example] {
    match command {
        "send" => send::EXAMPLES,
        "log" => log::EXAMPLES,
        "watch" => watch::EXAMPLES,
        "who" => who::EXAMPLES,
        "register" => register::EXAMPLES,
        "relay" => relay::EXAMPLES,
        "status" => status::EXAMPLES,
        "inbox" => inbox::EXAMPLES,
        "chat" => chat::EXAMPLES,
        "check" => check::EXAMPLES,
        "count" => check::COUNT_EXAMPLES,
        "read" => read::EXAMPLES,
        "peek" => read::PEEK_EXAMPLES,
        "ack" => ack::EXAMPLES,
        "archive" => archive::EXAMPLES,
        "unarchive" => unarchive::EXAMPLES,
        "mark-read" => mark_read::EXAMPLES,
        "mark-unread" => mark_unread::EXAMPLES,
        "delete" => delete::EXAMPLES,
        "reply" => reply::EXAMPLES,
        "thread" => thread::EXAMPLES,
        "receipt" => receipt::EXAMPLES,
        "reserve" => reserve::EXAMPLES,
        "release" => release::EXAMPLES,
        "renew" => renew::EXAMPLES,
        "reservations" => reservations::EXAMPLES,
        "guard" => guard::EXAMPLES,
        "hook" => hook::EXAMPLES,
        "mcp" => mcp::EXAMPLES,
        "search" => search::EXAMPLES,
        "nudge" => nudge::EXAMPLES,
        "topics" => topics::EXAMPLES,
        "gc" => gc::EXAMPLES,
        "init" => init::EXAMPLES,
        "whoami" => whoami::EXAMPLES,
        "config" => config::EXAMPLES,
        "trust" => trust::EXAMPLES,
        "plugin" => plugin::EXAMPLES,
        "quarantine" => quarantine::EXAMPLES,
        "store" => store::EXAMPLES,
        "completions" => completions::EXAMPLES,
        _ => &[],
    }
}
