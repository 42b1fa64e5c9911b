//! How many files the daemon may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to what the system allows this process. Every client is an open file, and the usual limit of 1024 is
/// there for programs that could not handle more.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, files = limit.current, "the limit of open files cannot be raised");
    }
}
