//! The operations by their names, and what stands behind each of them on a command line.

use std::ffi::OsString;

use fmail_api::{Error, Result};

/// An operation of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    EnsureRunning,
    Send,
    Reply,
    Get,
    Read,
    MarkRead,
    MarkUnread,
    Archive,
    Inbox,
    Check,
    All,
    Thread,
    Count,
}

/// What is written about an operation, and how it is called.
struct Entry {
    name: &'static str,
    operation: Operation,
    argument: Option<&'static str>,
    what: &'static str,
}

const fn entry(name: &'static str, operation: Operation, argument: &'static str, what: &'static str) -> Entry {
    Entry { name, operation, argument: Some(argument), what }
}

/// All of them. (`delete` is what callers call `archive` too.)
const ENTRIES: &[Entry] = &[
    Entry {
        name: "ensure-running",
        operation: Operation::EnsureRunning,
        argument: None,
        what: "say whether the project's mail can be reached",
    },
    entry("send", Operation::Send, "RECIPIENT", "send what standard input says, and print the message"),
    entry("reply", Operation::Reply, "ID", "answer a message to its sender, and print the answer"),
    entry("get", Operation::Get, "ID", "print a message; nothing changes"),
    entry("read", Operation::Read, "ID", "print a message; its recipient has read it then"),
    entry("mark-read", Operation::MarkRead, "ID", "its recipient has read it"),
    entry("mark-unread", Operation::MarkUnread, "ID", "its recipient has not read it"),
    entry("archive", Operation::Archive, "ID", "its recipient is done with it"),
    entry("delete", Operation::Archive, "ID", "the same as archive"),
    entry("inbox", Operation::Inbox, "RECIPIENT", "print what is unread; \"\" means every recipient"),
    entry("check", Operation::Check, "RECIPIENT", "the same; nothing changes"),
    entry("all", Operation::All, "RECIPIENT", "print what is not archived, read or not"),
    entry("thread", Operation::Thread, "THREAD|ID", "print a conversation, the oldest first"),
    entry("count", Operation::Count, "RECIPIENT", "print how many messages are open, and how many unread"),
];

/// What a command line asks for.
#[derive(Debug)]
pub(super) enum Asked {
    Help,
    Version,
    /// An operation with its argument, if it has one.
    Operation(Operation, String),
    /// An operation that has no name here.
    Unknown(String),
    /// An operation that is known, and cannot be run like this.
    Wrong(Error),
}

/// Reads the arguments. No answer but [`Asked::Unknown`] may end with exit code 2: callers take that for a success.
pub(super) fn asked(args: impl IntoIterator<Item = OsString>) -> Asked {
    let args: Vec<OsString> = args.into_iter().collect();
    let Some(first) = args.first() else {
        return Asked::Wrong(Error::invalid("no operation is named").help("`fmail-gc-mail --help` lists them"));
    };
    let name = first.to_string_lossy();
    match (&*name, ENTRIES.iter().find(|entry| entry.name == name)) {
        ("--help" | "-h" | "help", _) => Asked::Help,
        ("--version" | "-V", _) => Asked::Version,
        (_, None) => Asked::Unknown(name.into_owned()),
        (_, Some(entry)) => match argument(entry, &args[1..]) {
            Ok(argument) => Asked::Operation(entry.operation, argument),
            Err(error) => Asked::Wrong(error.help(format!("fmail-gc-mail {}", usage_of(entry)))),
        },
    }
}

fn argument(entry: &Entry, given: &[OsString]) -> Result<String> {
    let expected = usize::from(entry.argument.is_some());
    if given.len() != expected {
        let what = format!("`{}` has {} arguments, and takes {expected}", entry.name, given.len());
        return Err(Error::invalid(what));
    }
    let Some(argument) = given.first() else { return Ok(String::new()) };
    let text = argument.to_str().ok_or_else(|| {
        Error::invalid(format!("the argument of `{}` is not UTF-8: {}", entry.name, argument.to_string_lossy()))
    })?;
    Ok(text.to_string())
}

fn usage_of(entry: &Entry) -> String {
    let input = match entry.operation {
        Operation::Send | Operation::Reply => " < JSON",
        _ => "",
    };
    match entry.argument {
        Some(argument) => format!("{} {argument}{input}", entry.name),
        None => entry.name.to_string(),
    }
}

/// What `--help` prints.
pub(super) fn text() -> String {
    let mut text = String::from(
        "fmail as a mail script of Gas City: set GC_MAIL=exec:fmail-gc-mail\n\nUsage: fmail-gc-mail OPERATION [ARGUMENT]\n\n",
    );
    for entry in ENTRIES {
        text.push_str(&format!("  {:23} {}\n", usage_of(entry), entry.what));
    }
    text.push_str(
        "\nsend and reply read {\"from\":\"…\",\"subject\":\"…\",\"body\":\"…\"} from standard input. A list without messages prints\n\
         nothing. Exit codes: 0 done, 1 failed (standard error says why), 2 no such operation.\n\
         The project and its store are found as fmail finds them: by FMAIL_ROOT, or from the current directory upwards.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(args: &[&str]) -> Asked {
        asked(args.iter().map(OsString::from))
    }

    #[test]
    fn every_operation_of_the_contract_is_known() {
        let with = ["send", "reply", "get", "read", "mark-read", "mark-unread", "archive", "delete", "inbox", "check"];
        for name in with.into_iter().chain(["all", "thread", "count"]) {
            assert!(matches!(ask(&[name, "x"]), Asked::Operation(_, argument) if argument == "x"), "{name}");
            assert!(matches!(ask(&[name]), Asked::Wrong(_)), "{name}");
            assert!(matches!(ask(&[name, "x", "y"]), Asked::Wrong(_)), "{name}");
        }
        assert!(matches!(ask(&["ensure-running"]), Asked::Operation(Operation::EnsureRunning, _)));
        assert!(matches!(ask(&["ensure-running", "x"]), Asked::Wrong(_)));
    }

    #[test]
    fn only_a_name_that_is_not_known_is_unknown() {
        assert!(matches!(ask(&["archive-many", "x"]), Asked::Unknown(name) if name == "archive-many"));
        assert!(matches!(ask(&[""]), Asked::Unknown(_)));
        assert!(matches!(ask(&[]), Asked::Wrong(_)));
        assert!(matches!(ask(&["--help"]), Asked::Help));
        assert!(matches!(ask(&["--version"]), Asked::Version));
    }
}
