//! A daemon that is started, watched from outside, and ended in one way or another.

use rustix::process::Signal;

use crate::{Fmail, Footprint, Running, Sandbox, forged_binary};

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
        Daemon::start_with(sandbox, |command| command)
    }

    /// The same, made of another command than `forged` alone.
    pub fn start_with(sandbox: &Sandbox, change: impl FnOnce(Fmail) -> Fmail) -> Daemon {
        let running = change(sandbox.command(forged_binary())).spawn();
        let mut daemon = Daemon { running, log: String::new() };
        daemon.await_log(" listening ");
        daemon
    }

    /// Waits until its log has a line with this, and gives the first.
    #[track_caller]
    pub fn await_log(&mut self, part: &str) -> String {
        loop {
            if let Some(line) = self.log.lines().find(|line| line.contains(part)) {
                return line.to_string();
            }
            let line = self.running.stderr_line();
            self.log.push_str(&line);
            self.log.push('\n');
        }
    }

    /// Where it listens in this way, without `scheme://`.
    #[track_caller]
    pub fn address(&mut self, scheme: &str) -> String {
        let scheme = format!("{scheme}://");
        let line = self.await_log(&scheme);
        let (_, address) = line.split_once(&scheme).expect("it was found");
        address.split(['"', ' ']).next().unwrap_or_default().to_string()
    }

    /// What it holds of the machine now.
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.running.pid()).expect("the daemon runs")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.pid()
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
