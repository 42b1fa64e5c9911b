//! MCP clients that others wrote, against the real daemon and against `fmail mcp serve --stdio`.
//!
//! The programs are in `tests/clients`, one for each client in its own language; `cargo xtask clients` installs what they
//! need. Without it these tests are ignored, and say so; with `CI=true` they fail.

mod agent_mail;
mod fuzz;
mod inspector;
mod libraries;
mod program;

use libtest_mimic::{Arguments, Failed, Trial};
use xtask::clients::{self, Interpreter, Set};

fn main() {
    let arguments = Arguments::from_args();
    let trials = [libraries::trials(), inspector::trials(), agent_mail::trials(), fuzz::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit();
}

/// A test that needs the clients of a set.
fn trial(name: impl Into<String>, set: Set, run: impl FnOnce(Interpreter) + Send + 'static) -> Trial {
    let name = name.into();
    match clients::installed(set) {
        Ok(interpreter) => Trial::test(name, move || {
            run(interpreter);
            Ok(())
        }),
        Err(error) => {
            let reason = format!("{error}; {}", error.help_text().unwrap_or_default());
            let skipped = !std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
            if skipped {
                eprintln!("SKIPPED {name}: {reason}");
            }
            Trial::test(name, || Err(Failed::from(reason))).with_ignored_flag(skipped)
        }
    }
}
