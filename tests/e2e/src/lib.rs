//! What the end-to-end tests share: a project in a directory of its own, and the real `fmail` program in it.
//!
//! A test states what a user types and what a user sees. Everything that waits here waits for an event (a line, the end
//! of a process) with a deadline, so that a hang is a failure with its output and not a suite that never ends.

mod binary;
pub mod checker;
mod daemon;
pub mod fake_server;
mod footprint;
pub mod http;
pub mod mcp;
pub mod mcp_pipe;
mod plugins;
mod process;
mod random;
mod sandbox;
mod serving;
mod tree;
pub mod web_socket;
mod wire;

pub use binary::{fmail_binary, forged_binary, gc_mail_binary, plugin_check_binary, plugin_library, workspace};
pub use daemon::Daemon;
pub use footprint::Footprint;
pub use plugins::plugins;
pub use process::{DEADLINE, Fmail, Output, Running};
pub use random::{Random, full, minutes, pause, report, seed};
pub use sandbox::Sandbox;
pub use serving::{Interruptions, Sender, Serving, Tally, Watcher, send_the_end, until_the_end};
pub use tree::{Tree, assert_same, tree};
pub use wire::Wire;

/// Repeats `look` until it gives something or `seconds` are over. Only for what sends no event: another program's view
/// of the file system.
pub fn eventually<T>(seconds: u64, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(std::time::Instant::now() < end, "{what}: not within {seconds} s");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
