//! The programs of `tests/clients`, run in a sandbox.

use std::path::PathBuf;
use std::time::Duration;

use fmail_e2e::{Fmail, Sandbox, workspace};
use serde_json::Value;
use xtask::clients::Interpreter;

/// How many seconds a program may take: some work through the contract six times.
const PATIENCE: u64 = 240;

/// A program in Python, with its packages.
pub fn python(sandbox: &Sandbox, interpreter: &Interpreter, name: &str) -> Fmail {
    let file = workspace().join("tests/clients/python").join(name);
    // Nothing is written beside the sources.
    sandbox.command(&interpreter.program).env("PYTHONDONTWRITEBYTECODE", "1").arg("-X").arg("utf8").arg(file)
}

/// A program in JavaScript, with its packages. Node looks for them above the program, so it runs as a copy beside them.
pub fn node(sandbox: &Sandbox, interpreter: &Interpreter, name: &str) -> Fmail {
    sandbox.command(&interpreter.program).arg(beside_packages(sandbox, interpreter).join(name))
}

fn beside_packages(sandbox: &Sandbox, interpreter: &Interpreter) -> PathBuf {
    let directory = sandbox.outside().join("programs");
    if !directory.exists() {
        std::fs::create_dir(&directory).expect("own directory");
        let sources = std::fs::read_dir(workspace().join("tests/clients/node")).expect("the programs are there");
        let programs = sources.flatten().filter(|entry| entry.path().extension().is_some_and(|kind| kind == "mjs"));
        for entry in programs {
            std::fs::copy(entry.path(), directory.join(entry.file_name())).expect("own directory");
        }
        std::os::unix::fs::symlink(&interpreter.packages, directory.join("node_modules")).expect("own directory");
    }
    directory
}

/// Runs a program to its good end and gives the lines that it printed.
#[track_caller]
pub fn lines(program: Fmail, argument: &Value) -> Vec<Value> {
    lines_within(program, argument, PATIENCE)
}

/// The same within so many seconds.
#[track_caller]
pub fn lines_within(program: Fmail, argument: &Value, seconds: u64) -> Vec<Value> {
    let output = program.arg(argument.to_string()).spawn().wait_within(Duration::from_secs(seconds));
    assert_eq!(output.code, 0, "{argument}\n{output}");
    output.json_lines()
}
