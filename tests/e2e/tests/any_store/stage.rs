//! Where a case runs: a project on one of the stores, and a record of all that is printed.

use std::sync::{Mutex, PoisonError};

use fmail_e2e::{Daemon, Fmail, Output, Running, Sandbox};
use serde_json::Value;

use crate::setups::Setup;
use crate::transcript::Transcript;

/// A project on one of the stores; its daemon, if it has one, ends with it.
pub struct Stage {
    transcript: Mutex<Transcript>,
    _daemon: Option<Daemon>,
    pub sandbox: Sandbox,
}

impl Stage {
    /// An empty project.
    pub fn new(setup: &Setup) -> Stage {
        let sandbox = Sandbox::new();
        setup.prepare(&sandbox);
        let daemon = setup.served.then(|| Daemon::start(&sandbox));
        let transcript = Mutex::new(Transcript::of(&sandbox.path()));
        let stage = Stage { transcript, _daemon: daemon, sandbox };
        // Who creates the project is told so. Here that was the daemon or is nobody in particular.
        stage.command("nobody", &["init"]).ok();
        stage
    }

    /// All that was printed.
    pub fn transcript(self) -> Transcript {
        self.transcript.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command of an agent; what it prints is not recorded.
    pub fn command(&self, agent: &str, args: &[&str]) -> Fmail {
        self.sandbox.agent(agent).args(args)
    }

    /// A command without a name of its own; what it prints is not recorded.
    pub fn nameless(&self, args: &[&str]) -> Fmail {
        self.sandbox.fmail().args(args)
    }

    /// Runs a command to its end, whatever that is.
    pub fn run(&self, agent: &str, args: &[&str]) -> Output {
        self.record(agent, args, self.command(agent, args).run())
    }

    /// Runs a command that succeeds.
    #[track_caller]
    pub fn ok(&self, agent: &str, args: &[&str]) -> Output {
        self.exits(agent, args, 0)
    }

    /// Runs a command that gives data and ends with this code.
    #[track_caller]
    pub fn exits(&self, agent: &str, args: &[&str], code: i32) -> Output {
        let output = self.run(agent, args);
        assert_eq!(output.code, code, "{agent}: {}\n{output}", args.join(" "));
        output
    }

    /// Runs a command that is refused: with this code, and without data.
    #[track_caller]
    pub fn fails(&self, agent: &str, args: &[&str], code: i32) -> Output {
        let output = self.exits(agent, args, code);
        assert_eq!(output.stdout, "", "{agent}: {}\n{output}", args.join(" "));
        output
    }

    /// Runs a command with this on its standard input.
    #[track_caller]
    pub fn fed(&self, agent: &str, args: &[&str], input: impl Into<Vec<u8>>, code: i32) -> Output {
        let output = self.record(agent, args, self.command(agent, args).stdin(input).run());
        assert_eq!(output.code, code, "{agent}: {}\n{output}", args.join(" "));
        output
    }

    /// Sends, and gives the id.
    #[track_caller]
    pub fn send(&self, agent: &str, to: &str, body: &str) -> String {
        self.ok(agent, &["send", to, "--", body]).stdout.trim_end().to_string()
    }

    /// Starts a command; what it prints is recorded when it is waited for with [`Stage::end`].
    pub fn start(&self, agent: &str, args: &[&str]) -> Running {
        self.command(agent, args).spawn()
    }

    /// Waits for the end of a command that was started.
    #[track_caller]
    pub fn end(&self, running: Running, code: i32) -> Output {
        let output = self.record("", &["the end of what was started"], running.wait());
        assert_eq!(output.code, code, "{output}");
        output
    }

    /// The bodies of what a command prints as JSON lines.
    #[track_caller]
    pub fn bodies(&self, agent: &str, args: &[&str]) -> Vec<String> {
        bodies(&self.ok(agent, &[args, &["--json"]].concat()).json_lines())
    }

    fn record(&self, agent: &str, args: &[&str], output: Output) -> Output {
        // The arguments may name ends of ids, which differ.
        let what = format!("{agent}: {}", args.first().copied().unwrap_or_default());
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner).add(&what, &output);
        output
    }
}

/// The bodies of messages; what is not a text in its JSON.
pub fn bodies(messages: &[Value]) -> Vec<String> {
    let shown = |body: &Value| body.as_str().map_or_else(|| body.to_string(), String::from);
    messages.iter().map(|message| shown(&message["body"])).collect()
}
