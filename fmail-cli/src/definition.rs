//! The command line as a tree: help, man pages, completions, `--robot-help` and the parser all come from here.

use std::ffi::OsString;
use std::fmt::Write;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use fmail_api::ErrorKind;

use crate::commands::{
    ack, archive, chat, check, completions, config, delete, gc, guard, hook, inbox, init, log, mark_read, mark_unread,
    mcp, nudge, plugin, quarantine, read, receipt, register, relay, release, renew, reply, reservations, reserve,
    search, send, status, store, thread, topics, trust, unarchive, watch, who, whoami,
};
use crate::run::{NOTHING, nothing_means};

/// Agents send and receive messages through topics and direct messages
///
/// A topic is a channel that anyone in the project may write and read; `@name` is the mailbox of one agent. Messages are
/// JSON files under `.fmail/` in the project's directory, created by the first message. Set FMAIL_AGENT to your name.
#[derive(Parser)]
#[command(name = "fmail", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Fmail {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args)]
pub(crate) struct Everywhere {
    /// Describe fmail, or the command before it, as one JSON object for programs
    // Answered before the arguments are parsed; it stands here so that help and completions know it.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) robot_help: bool,

    /// Override a setting for this call; `fmail config show` lists the keys
    #[arg(long, global = true, display_order = 900, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
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
    /// Show your unread mail, the oldest first
    ///
    /// Shows the direct messages that you have neither read nor archived. That they were retrieved is noted for their
    /// senders to see (`fmail receipt`); they stay unread. Needs FMAIL_AGENT.
    Inbox(inbox::Inbox),
    /// Ask whether you have unread mail
    ///
    /// Exits with 0 when there is unread mail, with 1 when there is none, and with another code when it cannot tell.
    /// Changes nothing.
    Check(check::Check),
    /// Count your open mail
    ///
    /// Counts the direct messages that are not archived, and those of them that are unread. Changes nothing.
    Count(check::Count),
    /// Print messages and mark them read
    ///
    /// A message is marked when it has been printed. It stays open until it is archived. Messages of topics can be read
    /// as well; what you sent to others is printed and left to them.
    Read(read::Read),
    /// Print messages and change nothing
    ///
    /// Prints messages that you may read: of topics, of your mailbox, and those that you sent.
    Peek(read::Peek),
    /// Acknowledge messages
    ///
    /// Marks messages read and agreed to. The sender sees it in `fmail receipt`.
    Ack(ack::Ack),
    /// Close messages that are done with
    ///
    /// An archived message is in no inbox any more; threads and the log keep it. Archiving twice is no failure.
    Archive(archive::Archive),
    /// Open archived messages again
    ///
    /// They are where they were: unread in the inbox, read outside it.
    Unarchive(unarchive::Unarchive),
    /// Mark messages read without printing them
    ///
    /// Prints the id of each message that was marked.
    MarkRead(mark_read::MarkRead),
    /// Mark messages unread
    ///
    /// They are in your inbox again. What the sender has seen in a receipt stays true.
    MarkUnread(mark_unread::MarkUnread),
    /// Delete messages from your mailbox for good
    ///
    /// Other recipients keep theirs; the file goes with the last of them.
    Delete(delete::Delete),
    /// Answer a message
    ///
    /// The answer goes to the sender, in the same thread, with Re: before the title. Prints the id of the stored message.
    Reply(reply::Reply),
    /// Show a conversation
    ///
    /// Shows the messages of a thread that you may read, the oldest first; on a terminal as a tree.
    Thread(thread::Thread),
    /// Show what became of a message
    ///
    /// Shows for every recipient whether and when the message was retrieved, read and acknowledged. For a message in a
    /// topic, everyone who has read or acknowledged it is shown.
    Receipt(receipt::Receipt),
    /// Reserve paths for a while
    ///
    /// Advisory: it keeps nobody from writing, but of those who ask, one gets an exclusive reservation, and `fmail guard`
    /// asks before a commit. What is free is granted also when another path of the call is not; then the exit code is 8,
    /// and who stands in the way is told. Reserving the same again renews it. Needs FMAIL_AGENT.
    Reserve(reserve::Reserve),
    /// Give reservations back
    ///
    /// Prints what was given back. What you name and do not hold is told with the reason, and the exit code is 7.
    Release(release::Release),
    /// Let reservations last longer
    ///
    /// Counted from now. One that has ended does not come back: reserve it again. The exit code is 7 when you named
    /// something that you do not hold.
    Renew(renew::Renew),
    /// Show who has reserved what
    ///
    /// Shows the reservations that hold now, by pattern. Changes nothing.
    Reservations(reservations::Reservations),
    /// Let git refuse commits on paths that others have reserved
    ///
    /// A pre-commit hook compares the staged paths with the exclusive reservations of other agents. `git commit
    /// --no-verify` goes past it. Without FMAIL_AGENT every exclusive reservation counts as somebody else's.
    Guard(guard::Guard),
    /// Let an agent's sessions be told of new mail
    ///
    /// Writes `fmail check --inject` into the hooks of Claude Code, Codex or Gemini CLI. What is in those files stays, and
    /// `uninstall` brings them back to the byte.
    Hook(hook::Hook),
    /// Agent Mail over MCP: a client, a server, and the set-up of agents
    ///
    /// Talks to any Agent Mail server, ours (forged with the transport http) or another, and connects Claude Code, Codex and
    /// Gemini CLI with it. docs/mcp.md has it all.
    Mcp(mcp::Mcp),
    /// Find messages by what they say
    ///
    /// Looks through the messages that you may read: of topics, to you, and those that you sent. Prints the newest that
    /// match, the oldest of them first. The query is that of SQLite's full-text search; docs/search.md has it all.
    Search(search::Search),
    /// Wake an agent that is there
    ///
    /// Gives the text to the open watches of the agent, through forged, and runs the command that mail.nudge has for it.
    /// Nothing is stored: who is not there does not get it. What has to arrive is a message (`fmail send`).
    Nudge(nudge::Nudge),
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
    /// Trust this project's configuration file as it stands
    ///
    /// A project's file may have come with a clone, so what it says to run, to load or to dial does not count until you
    /// trust it. Shows all of that, and remembers your trust outside of the project; it is void when the file changes.
    Trust(trust::Trust),
    /// List, inspect, check, measure and begin plugins
    ///
    /// A plugin is a store, a transport or a relay that the configuration names: a library, or a program that speaks lines of
    /// JSON. docs/plugins has a guide, the rules, and the ABI.
    Plugin(plugin::Plugin),
    /// The child process of `plugin inspect`
    #[command(hide = true)]
    PluginManifest(plugin::PluginManifest),
    /// Look after stored files that cannot be understood
    ///
    /// Broken files are skipped and told; they never stop a command, and they are moved only when you say so.
    Quarantine(quarantine::Quarantine),
    /// Copy, export and import everything that a store holds
    ///
    /// A project is moved to another store by copying it there and changing mail.store.
    Store(store::Store),
    /// Keep this project in step with other hosts
    ///
    /// Pairs hosts, ends pairings, and shows the links: forged relays what is sent on one host to all others. docs/relay.md has
    /// it all.
    Relay(relay::Relay),
    /// Chat files
    ///
    /// A chat file is plain text that agents append lines to, `[sender-to-recipient]: message`. docs/chat.md has it all.
    Chat(chat::Chat),
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

/// Gives a command its arguments.
type WithArguments = fn(clap::Command) -> clap::Command;

/// The commands that agents run all the time.
const COMMON: [(&str, WithArguments); 11] = [
    ("send", send::Send::augment_args),
    ("log", log::Log::augment_args),
    ("watch", watch::Watch::augment_args),
    ("inbox", inbox::Inbox::augment_args),
    ("check", check::Check::augment_args),
    ("read", read::Read::augment_args),
    ("ack", ack::Ack::augment_args),
    ("reply", reply::Reply::augment_args),
    ("status", status::Status::augment_args),
    ("who", who::Who::augment_args),
    ("topics", topics::Topics::augment_args),
];

/// What these arguments say, when they are those of a command that agents run all the time and nothing is wrong with them. The
/// tree then has that one command: building all of them takes longer than everything else that `fmail send` computes.
/// Help and mistakes are told by the whole tree.
pub(crate) fn parse_common(args: &[OsString]) -> Option<Fmail> {
    let name = args.get(1)?.to_str()?;
    let (name, with_arguments) = COMMON.iter().find(|(common, _)| *common == name)?;
    let command = clap::Command::new("fmail").subcommand(with_arguments(clap::Command::new(*name)));
    let matches = Everywhere::augment_args(command).try_get_matches_from(args).ok()?;
    Fmail::from_arg_matches(&matches).ok()
}

/// The exit codes as the end of the long help.
fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n    0  done; for watch also: timeout, count reached, interrupted");
    let failures = ErrorKind::ALL.iter().map(|kind| (kind.exit_code(), format!("{}: {}", kind.code(), kind.meaning())));
    for (code, means) in [(NOTHING, nothing_means())].into_iter().chain(failures) {
        let lines = wrapped(&means, 72).join("\n       ");
        // Writing into a string does not fail.
        let _ = write!(text, "\n  {code:>3}  {lines}");
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::run::NOTHING_MEANS;

    #[test]
    fn the_tree_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_common_command_takes_alone_what_it_takes_in_the_tree() {
        let mut tree = command();
        tree.build();
        // In the tree a command gets its own arguments last.
        let taken = |command: &clap::Command| -> BTreeSet<String> {
            let own = command.get_arguments().filter(|argument| argument.get_id() != "help");
            own.map(|argument| format!("{argument:?}")).collect()
        };
        for (name, with_arguments) in COMMON {
            let alone = with_arguments(clap::Command::new(name));
            let mut alone = Everywhere::augment_args(clap::Command::new("fmail").subcommand(alone));
            alone.build();
            let (alone, among_all) = (alone.find_subcommand(name).unwrap(), tree.find_subcommand(name).unwrap());
            assert_eq!(taken(alone), taken(among_all), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_or_asks_for_help_is_left_to_the_whole_tree() {
        let parsed = |words: &str| parse_common(&words.split(' ').map(OsString::from).collect::<Vec<_>>()).is_some();
        assert!(parsed("fmail send task hello --set mail.store=files") && parsed("fmail log -n 5"));
        for words in
            ["fmail", "fmail send", "fmail send --help", "fmail log --limti 3", "fmail --set a=b log", "fmail gc"]
        {
            assert!(!parsed(words), "{words}");
        }
    }

    #[test]
    fn the_long_help_names_every_exit_code() {
        let help = command().render_long_help().to_string();
        for kind in ErrorKind::ALL {
            assert!(help.contains(kind.code()), "{kind}");
        }
    }

    #[test]
    fn every_list_names_each_question_that_code_1_answers() {
        let (help, readme) = (exit_codes(), include_str!("../../README.md"));
        let row = readme.lines().find(|line| line.starts_with("| 1 | | ")).unwrap();
        for (who, what) in NOTHING_MEANS {
            let marked: Vec<String> = who.split(", ").map(|one| format!("`{one}`")).collect();
            assert!(row.contains(&format!("{}: {what}", marked.join(", "))), "{row}");
            // The help breaks its lines.
            assert!(
                help.split_whitespace().collect::<Vec<_>>().join(" ").contains(&format!("{who}: {what}")),
                "{help}"
            );
        }
        assert_eq!(row.matches(": ").count(), NOTHING_MEANS.len(), "{row}");
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        let mut tree = command();
        tree.build();
        for one in tree.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
            let help = one.clone().render_long_help().to_string();
            assert!(help.contains("Examples:\n") && help.contains("fmail "), "{}", one.get_name());
        }
    }
}
