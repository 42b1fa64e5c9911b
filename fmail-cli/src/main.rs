//! The `fmail` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    fmail_cli::run(std::env::args_os())
}
