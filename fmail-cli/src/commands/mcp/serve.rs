//! `fmail mcp serve`

use clap::{Args, ValueEnum};
use fmail_host::Environment;
use fmail_mcp::{Options, Profile};

use crate::mcp_server;
use crate::output::Outcome;

#[derive(Args)]
pub(crate) struct Serve {
    /// Take JSON-RPC lines on standard input and answer on standard output; over HTTP, forged serves
    #[arg(long, required = true)]
    stdio: bool,

    /// Which tools are offered
    #[arg(long, value_enum, default_value_t = Offered::Standard)]
    profile: Offered,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Offered {
    /// What is needed to send, fetch and acknowledge
    Minimal,
    /// The tools of Agent Mail's contract, and what its clients call beside them
    Standard,
    /// All
    Full,
}

impl Serve {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let profile = match self.profile {
            Offered::Minimal => Profile::Minimal,
            Offered::Standard => Profile::Standard,
            Offered::Full => Profile::Full,
        };
        mcp_server::serve(environment, set, Options { profile })
    }
}
