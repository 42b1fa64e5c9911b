//! `fmail completions`

use clap::Args;
use clap_complete::Shell;

use crate::definition::command;
use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail completions bash > ~/.local/share/bash-completion/completions/fmail", "for bash"),
    example("fmail completions zsh > ~/.zfunc/_fmail", "for zsh"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "fmail", &mut script);
        let mut output = Output::stdout();
        output.line(String::from_utf8_lossy(&script).trim_end())?;
        output.flush()
    }
}
