//! `forged completions`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::Shell;
use fmail_api::{Error, Result};

/// Prints the script that completes `forged` in a shell.
pub fn print(shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut forged::command(), "forged", &mut script);
    match io::stdout().lock().write_all(&script) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("cannot write the script", &error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}
