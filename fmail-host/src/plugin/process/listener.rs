//! Who hears what a child says.

use fmail_abi::{Level, Peer};

/// The host as a child sees it: where its answers, its own calls and its log go.
///
/// The functions of [`Peer`] are called with what the child says: `done` and `item` answer calls of the host, `call`,
/// `pull` and `cancel` are calls of the child.
pub trait Listener: Peer {
    /// A line of the child's log.
    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]);
    /// The child is gone: its own calls are over, and nobody takes their answers.
    fn lost(&self);
    /// A line on the child's standard error.
    fn said(&self, line: &str) {
        self.log(Level::Warn, "stderr", line, b"");
    }
}
