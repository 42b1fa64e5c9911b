//! `fmail plugin-host FILE`: a library in a process of its own, for the host that has started this process.
//!
//! No command for people: it is in no help, and it is recognised before the arguments are parsed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fmail_api::Error;
use fmail_host::plugin::serve_library;

use crate::output::Outcome;

/// The arguments behind the command, if this is it.
pub(crate) fn asked(args: &[OsString]) -> Option<&[OsString]> {
    args.get(1).filter(|command| *command == "plugin-host").map(|_| &args[2..])
}

/// Serves the library until the host ends its lines.
pub(crate) fn run(args: &[OsString]) -> Outcome {
    let file = match args {
        [mark, file] if mark == "--" => PathBuf::from(file),
        [file] if file != "--" => PathBuf::from(file),
        _ => {
            return Err(Error::invalid("the library's file is expected, and nothing else")
                .help("fmail runs this itself for a plugin with isolation = \"process\"")
                .into());
        }
    };
    Ok(serve_library(Path::new(&file))?)
}
