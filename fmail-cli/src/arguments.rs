//! From arguments to a command, also where clap does not take them as they are meant.

use std::ffi::{OsStr, OsString};

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind as Usage};

use crate::definition::{Fmail, command_for};

/// The command that the arguments describe. What was refused is read once more in the only way in which it can be meant.
pub(crate) fn parse(args: &[OsString]) -> Result<Fmail, clap::Error> {
    let refused = match matched(args) {
        Ok(fmail) => return Ok(fmail),
        Err(refused) => refused,
    };
    let context = |kind| match refused.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    match (refused.kind(), context(ContextKind::InvalidSubcommand), context(ContextKind::InvalidArg)) {
        (Usage::InvalidSubcommand, Some("--help" | "-h"), _) => matched(&without_help_flags(args)),
        (Usage::UnknownArgument, _, Some(word)) if is_negative(OsStr::new(word)) => {
            let Some(joined) = with_values_joined(args) else { return Err(refused) };
            match matched(&joined) {
                // The option before it takes no value, so that it is none.
                Err(error) if error.kind() == Usage::TooManyValues => Err(refused),
                outcome => outcome,
            }
        }
        _ => Err(refused),
    }
}

fn matched(args: &[OsString]) -> Result<Fmail, clap::Error> {
    command_for(args).try_get_matches_from(args).and_then(|matches| Fmail::from_arg_matches(&matches))
}

/// `fmail help --help` asks for help, as `fmail help` does. Clap takes what follows `help` for the name of a command.
fn without_help_flags(args: &[OsString]) -> Vec<OsString> {
    args.iter().filter(|arg| *arg != "--help" && *arg != "-h").cloned().collect()
}

/// `--since -1h` as `--since=-1h`: then the option itself says what is wrong with its value. Clap sees an unknown flag in
/// it, and would advise to write `--` before it, which makes it no value of the option. Nothing where there is none.
fn with_values_joined(args: &[OsString]) -> Option<Vec<OsString>> {
    let mut joined: Vec<OsString> = Vec::with_capacity(args.len());
    let mut rest = args.iter();
    let mut any = false;
    for arg in rest.by_ref() {
        match joined.last_mut() {
            _ if arg == "--" => {
                joined.push(arg.clone());
                break;
            }
            Some(option) if is_negative(arg) && may_take_a_value(option) => {
                any = true;
                option.push("=");
                option.push(arg);
            }
            _ => joined.push(arg.clone()),
        }
    }
    joined.extend(rest.cloned());
    any.then_some(joined)
}

/// Whether it is a number below zero, or one with a unit.
fn is_negative(arg: &OsStr) -> bool {
    matches!(arg.as_encoded_bytes(), [b'-', b'0'..=b'9', ..])
}

fn may_take_a_value(option: &OsStr) -> bool {
    let bytes = option.as_encoded_bytes();
    bytes.starts_with(b"-") && bytes.len() > 1 && !bytes.contains(&b'=') && !is_negative(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &str) -> String {
        let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        parse(&args).err().map(|error| error.render().to_string()).unwrap_or_default()
    }

    #[test]
    fn a_negative_value_is_refused_for_what_it_is() {
        assert!(refusal("fmail log -n -1").contains("invalid value '-1' for '--limit <LIMIT>': -1 is not in 1.."));
        assert!(refusal("fmail gc --days -3").contains("invalid value '-3' for '--days <N>'"));
        // What is wrong with these is said by who reads them.
        for words in ["fmail log --since -1h", "fmail watch --timeout -5s --json", "fmail send task x -s -1 --text"] {
            assert_eq!(refusal(words), "", "{words}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused_as_before() {
        assert!(refusal("fmail send task -1").contains("'-- -1'"));
        assert!(refusal("fmail send task --json -1").contains("'-- -1'"));
        assert!(refusal("fmail log --since --json").contains("a value is required for '--since <TIME|ID>'"));
        assert!(refusal("fmail log -x -1").contains("'-x'"));
    }

    #[test]
    fn help_is_given_about_help_too() {
        for words in ["fmail help --help", "fmail help -h", "fmail help send --help", "fmail plugin help --help"] {
            let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            assert_eq!(parse(&args).err().map(|error| error.kind()), Some(Usage::DisplayHelp), "{words}");
        }
        assert!(refusal("fmail help nonsense").contains("unrecognized subcommand 'nonsense'"));
    }
}
