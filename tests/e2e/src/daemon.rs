//! A daemon that is started, watched from outside, and ended in one way or another.

use rustix::process::Signal;

use crate::{Footprint, Running, Sandbox, forged_binary};

/// A `forged` that serves a sandbox's project; killed when dropped.
pub struct Daemon {
    running: Running,
    log: String,
}

impl Daemon {
    /// Starts it and does not wait for anything.
    pub fn spawn(sandbox: &Sandbox) -> Daemon {
        Daemon { running: sandbox.command(forged_binary()).spawn(), log: String::new() }
    }

    /// Starts it and waits until it takes connections.
    pub fn start(sandbox: &Sandbox) -> Daemon {
        Daemon::start_with(sandbox, &[])
    }

    /// The same with these variables.
    pub fn start_with(sandbox: &Sandbox, variables: &[(String, String)]) -> Daemon {
        let command = sandbox.command(forged_binary());
        let command = variables.iter().fold(command, |command, (name, value)| command.env(name, value));
        let mut daemon = Daemon { running: command.spawn(), log: String::new() };
        while !daemon.log.contains(" listening ") {
            let line = daemon.running.stderr_line();
            daemon.log.push_str(&line);
            daemon.log.push('\n');
        }
        daemon
    }

    /// What it holds of the machine now.
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.running.pid()).expect("the daemon runs")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(self) {
        self.signal(Signal::KILL);
        self.end();
    }

    /// SIGTERM, and waits until it has drained and ended well.
    pub fn stop(self) {
        self.signal(Signal::TERM);
        let code = self.end();
        assert_eq!(code, 0, "forged was told to end and did not end well");
    }

    fn end(self) -> i32 {
        let output = self.running.wait();
        let log = self.log + &output.stderr;
        assert!(!log.contains("panicked"), "forged panicked:\n{log}");
        output.code
    }
}
