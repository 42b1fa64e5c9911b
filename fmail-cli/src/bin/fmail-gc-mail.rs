//! The `fmail-gc-mail` program: fmail as a mail script of Gas City.

use std::process::ExitCode;

fn main() -> ExitCode {
    fmail_cli::gc_mail(std::env::args_os())
}
