//! `--robot-help`: fmail described as one JSON object, for programs that want to use it.
//!
//! Commands, flags and examples come from the tree that parses them; only what no tree knows - how to set up, patterns
//! of use, the environment, the format of messages - is written here.

use std::ffi::OsString;

use clap::{Arg, Command};
use fmail_api::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use crate::commands::examples;
use crate::definition::command;
use crate::output::{Outcome, Output};
use crate::run::{NOTHING, nothing_means};

const FLAG: &str = "--robot-help";

/// Whether the arguments ask for it, and the command that they name.
pub(crate) fn asked(args: &[OsString]) -> Option<Option<String>> {
    let words: Vec<&str> =
        args.iter().skip(1).map(|arg| arg.to_str().unwrap_or_default()).take_while(|arg| *arg != "--").collect();
    if !words.contains(&FLAG) {
        return None;
    }
    let is_value = |place: usize| place > 0 && words[place - 1] == "--set";
    let named = words.iter().enumerate().find(|(place, word)| !word.starts_with('-') && !is_value(*place));
    Some(named.map(|(_, word)| word.to_string()))
}

/// Prints the description of fmail, or of one command in full.
pub(crate) fn print(name: Option<&str>) -> Outcome {
    let described = match name {
        None | Some("help") => overview(),
        Some(name) => in_full(name)?,
    };
    let mut output = Output::stdout();
    output.json(&described)?;
    output.flush()
}

fn tree() -> Command {
    let mut tree = command();
    tree.build();
    tree
}

/// Commands that the overview gives a line each: an agent that sends and watches can do without them.
const MAILBOX: &[&str] = &[
    "inbox",
    "check",
    "count",
    "read",
    "peek",
    "ack",
    "archive",
    "unarchive",
    "mark-read",
    "mark-unread",
    "delete",
    "reply",
    "thread",
    "receipt",
    "search",
    "reserve",
    "release",
    "renew",
    "reservations",
    "guard",
    "hook",
    "mcp",
    "nudge",
    "relay",
    "plugin",
    "trust",
    "store",
    "chat",
    "quarantine",
];

/// What a command is called with, and what it does.
fn one_line(one: &Command) -> String {
    let usage = one.clone().render_usage().to_string();
    let about = one.get_about().map(ToString::to_string).unwrap_or_default();
    format!("{}  # {about}", usage.trim_start_matches("Usage: ").replace(" [OPTIONS]", ""))
}

/// Everything, briefly.
fn overview() -> Value {
    let tree = tree();
    let (further, main): (Vec<&Command>, Vec<&Command>) =
        commands(&tree).partition(|one| MAILBOX.contains(&one.get_name()));
    let commands: Map<String, Value> =
        main.into_iter().map(|one| (one.get_name().to_string(), Value::Object(brief(one)))).collect();
    let mailbox: Map<String, Value> =
        further.into_iter().map(|one| (one.get_name().to_string(), one_line(one).into())).collect();
    json!({
        "name": "fmail",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Agents send and receive messages through topics and direct messages, stored as JSON files.",
        "setup": [
            "export FMAIL_AGENT=<your-name> (or: export FMAIL_AGENT=$(fmail register))",
            "run it anywhere inside the project; the first send creates .fmail/",
            "names of agents and topics are [a-z0-9-]; capitals become small",
            "data on stdout, notes and errors on stderr",
            "send prints the message's id; without MESSAGE it reads stdin",
            "watch starts now unless --since says otherwise; --since <id> leaves that message out; \
                a timeout is exit 0 with empty stdout",
        ],
        "commands": commands,
        "mailbox": mailbox,
        "global_flags": global_flags(&tree),
        "patterns": patterns(),
        "env": env(),
        "message_format": message_format(),
        "storage": storage(),
        "exit_codes": exit_codes(),
        "more": "fmail <command> --robot-help: one command in full",
    })
}

/// One command with everything that is known about it.
fn in_full(name: &str) -> Result<Value> {
    let tree = tree();
    let one = tree.find_subcommand(name).ok_or_else(|| {
        let names: Vec<&str> = commands(&tree).map(Command::get_name).collect();
        Error::invalid(format!("there is no command `{}`", name.escape_debug()))
            .help(format!("the commands are {}", names.join(", ")))
    })?;
    let mut full = Map::new();
    full.insert("name".into(), one.get_name().into());
    full.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    full.append(&mut brief(one));
    if let Some(long) = one.get_long_about().or(one.get_about()) {
        full.insert("description".into(), long.to_string().into());
    }
    full.insert("aliases".into(), one.get_visible_aliases().collect::<Vec<_>>().into());
    full.insert("arguments".into(), arguments(one));
    let lines = examples(one.get_name()).iter().map(|one| json!({"command": one.line, "does": one.does}));
    full.insert("examples".into(), lines.collect());
    let nested: Map<String, Value> = commands(one)
        .map(|inner| {
            let mut described = brief(inner);
            described.insert("arguments".into(), arguments(inner));
            (inner.get_name().to_string(), Value::Object(described))
        })
        .collect();
    if !nested.is_empty() {
        full.insert("commands".into(), nested.into());
    }
    full.insert("global_flags".into(), global_flags(&tree));
    full.insert("env".into(), env());
    full.insert("exit_codes".into(), exit_codes());
    Ok(full.into())
}

fn commands(tree: &Command) -> impl Iterator<Item = &Command> {
    tree.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set())
}

/// What the overview says about a command.
fn brief(one: &Command) -> Map<String, Value> {
    let usage = one.clone().render_usage().to_string();
    let mut map = Map::new();
    map.insert("usage".into(), usage.trim_start_matches("Usage: ").into());
    map.insert("flags".into(), flags(one));
    map.insert("examples".into(), examples(one.get_name()).iter().map(|example| example.line).collect());
    map.insert("description".into(), one.get_about().map(ToString::to_string).into());
    let nested: Map<String, Value> = commands(one)
        .map(|inner| (inner.get_name().to_string(), inner.get_about().map(ToString::to_string).into()))
        .collect();
    if !nested.is_empty() {
        map.insert("subcommands".into(), nested.into());
    }
    map
}

/// The flags of a command without those that every command has.
fn flags(one: &Command) -> Value {
    let own = |arg: &&Arg| !arg.is_positional() && !arg.is_global_set() && arg.get_id() != "help";
    one.get_arguments().filter(own).map(described).collect::<Map<_, _>>().into()
}

fn global_flags(tree: &Command) -> Value {
    tree.get_arguments().filter(|arg| !arg.is_positional()).map(described).collect::<Map<_, _>>().into()
}

fn arguments(one: &Command) -> Value {
    let argument = |arg: &Arg| {
        json!({
            "name": arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str()),
            "required": arg.is_required_set(),
            "description": arg.get_help().map(ToString::to_string),
            "values": values(arg),
        })
    };
    one.get_positionals().map(argument).collect()
}

/// `-n, --limit <LIMIT>` and what it does.
fn described(arg: &Arg) -> (String, Value) {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut name = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if let (true, Some([value, ..])) = (arg.get_action().takes_values(), arg.get_value_names()) {
        name.push_str(&format!(" <{value}>"));
    }
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if let ([default, ..], true) = (arg.get_default_values(), arg.get_action().takes_values()) {
        help.push_str(&format!(" (default {})", default.to_string_lossy()));
    }
    (name, help.into())
}

fn values(arg: &Arg) -> Vec<String> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    arg.get_possible_values().iter().map(|value| value.get_name().to_string()).collect()
}

/// Commands as they are typed; what a reader has to know about them is a comment of the shell.
fn patterns() -> Value {
    json!({
        "request_response": [
            "id=$(fmail send @analyzer \"analyze src/auth.go\")",
            "fmail watch @$FMAIL_AGENT --since $id --count 1 --timeout 2m  \
                # the next direct message, whoever sent it; with --json compare its reply_to with $id",
        ],
        "responder": "fmail watch @$FMAIL_AGENT --since 1h --json | while read -r msg; do \
            fmail send @\"$(printf %s \"$msg\" | jq -r .from)\" --reply-to \"$(printf %s \"$msg\" | jq -r .id)\" \
            \"done\"; done  # --since catches up: skip what you have answered, or go on with --since <last id>",
        "file_coordination": [
            "fmail send editing \"src/auth.go\"",
            "fmail log editing --since 5m -n 1000 --json | grep -q auth.go && echo busy",
        ],
        "claim": "fmail send task '{\"claimed\":\"auth\",\"by\":\"'$FMAIL_AGENT'\"}'  \
            # then look: fmail log task -n 1000 --json; of several claims the lowest id wins",
        "status": "fmail status \"building main\"; fmail status --clear",
    })
}

fn env() -> Value {
    json!({
        "FMAIL_AGENT": "your name [a-z0-9-]; without it anon-<pid>",
        "FMAIL_ROOT": "project directory; default: nearest .fmail upward, else git root, else current directory",
        "FMAIL_PROJECT": "project id; default: project.json, git remote, directory name",
        "FMAIL_<KEY>": "a setting without `mail.`, e.g. FMAIL_STRICT_RECIPIENTS=true; fmail config show",
        "FMAIL_<SECTION>__<KEY>": "in a section, e.g. FMAIL_GC__DAYS=3",
    })
}

fn message_format() -> Value {
    json!({
        "id": "YYYYMMDD-HHMMSS-NNNN, UTC, ascending",
        "from": "agent",
        "to": "topic or @agent",
        "time": "RFC 3339, UTC",
        "body": "string or any JSON value",
        "optional": "reply_to (id), priority (low|high), tags ([a-z0-9-], at most 10), host; unknown fields are kept",
        "limit": "1 MB as JSON",
    })
}

fn storage() -> Value {
    json!({
        ".fmail/topics/<topic>/<id>.json": "topic messages, readable by all",
        ".fmail/dm/<agent>/<id>.json": "direct messages, by recipient, 0600",
        ".fmail/agents/<name>.json": "name, host, status, first_seen, last_seen",
        ".fmail/project.json": "project id",
    })
}

fn exit_codes() -> Value {
    let mut codes = Map::new();
    codes.insert("0".into(), "done; for watch also timeout, count reached, interrupted".into());
    codes.insert(NOTHING.to_string(), nothing_means().into());
    for kind in ErrorKind::ALL {
        codes.insert(kind.exit_code().to_string(), format!("{}: {}", kind.code(), kind.meaning()).into());
    }
    codes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Option<String>> {
        asked(&text.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn it_is_asked_for_anywhere_before_the_message() {
        assert_eq!(words("fmail --robot-help"), Some(None));
        assert_eq!(words("fmail send --robot-help"), Some(Some("send".into())));
        assert_eq!(words("fmail --robot-help log"), Some(Some("log".into())));
        assert_eq!(words("fmail --set a=b watch --robot-help"), Some(Some("watch".into())));
        assert_eq!(words("fmail send task -- --robot-help"), None);
        assert_eq!(words("fmail send task hello"), None);
    }

    #[test]
    fn the_overview_is_small_and_has_its_keys() {
        let overview = overview();
        let size = overview.to_string().len();
        assert!(size <= 12_000, "{size} bytes");
        for key in [
            "name",
            "version",
            "description",
            "setup",
            "commands",
            "patterns",
            "env",
            "message_format",
            "storage",
            "exit_codes",
        ] {
            assert!(!overview[key].is_null(), "{key}");
        }
        for (name, line) in overview["mailbox"].as_object().unwrap() {
            assert!(line.as_str().unwrap().starts_with(&format!("fmail {name}")), "{line}");
        }
        for (name, one) in overview["commands"].as_object().unwrap() {
            for key in ["usage", "flags", "examples", "description"] {
                assert!(!one[key].is_null(), "{name}.{key}");
            }
            assert!(one["usage"].as_str().unwrap().starts_with(&format!("fmail {name}")), "{one}");
            assert!(!one["examples"].as_array().unwrap().is_empty(), "{name} has no example");
        }
        let flags = &overview["commands"]["send"]["flags"];
        assert!(flags["-r, --reply-to <ID>"].is_string(), "{flags}");
        assert!(flags["-p, --priority <PRIORITY>"].as_str().unwrap().contains("default normal"));
    }

    #[test]
    fn every_command_can_be_described_in_full() {
        for one in commands(&tree()) {
            let full = in_full(one.get_name()).unwrap();
            assert!(full["arguments"].is_array() && full["exit_codes"].is_object(), "{full}");
        }
        assert_eq!(in_full("logs").unwrap()["name"], "log");
        assert!(in_full("quarantine").unwrap()["commands"]["isolate"]["usage"].is_string());
        assert_eq!(in_full("nonsense").unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
}
