//! The README's commands, run as they stand there, on an installed program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tempfile::TempDir;

/// A directory with fmail installed in it and a place for a project.
struct Desk {
    directory: TempDir,
}

impl Desk {
    fn set() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let installed = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["install", "--debug", "--prefix"])
            .arg(directory.path().join("prefix"))
            .output()
            .unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        fs::create_dir(directory.path().join("tour")).unwrap();
        Desk { directory }
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("tour")
    }

    /// A shell that runs a block of the README in the project, with the installed program first on its path.
    fn shell(&self, block: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let block = block.replace("/tmp/tour", self.project().to_str().unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &block]).current_dir(self.project());
        shell.env("PATH", format!("{}:{path}", self.directory.path().join("prefix/bin").display()));
        shell.env("HOME", self.directory.path()).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
        for name in ["FMAIL_AGENT", "FMAIL_ROOT", "FMAIL_PROJECT"] {
            shell.env_remove(name);
        }
        shell
    }

    fn run(&self, block: &str) -> String {
        let output = self.shell(block).output().unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The first shell block of the README that contains `text`.
fn block_with(text: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let mut blocks = readme.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(text)).unwrap_or_else(|| panic!("README.md has no block with {text}")).into()
}

/// A shell that goes on running, and the lines that it prints.
struct Terminal(Child, Receiver<String>);

impl Terminal {
    fn open(mut shell: Command) -> Self {
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Terminal(child, lines)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_first_command_sends_and_shows_a_message() {
    let block = block_with("cargo build --release --package fmail-cli && export PATH=");
    // The build is left out here: the program is installed already, and an optimised build takes minutes.
    let (_, rest) = block.split_once("target/release:$PATH\" ").expect("the command puts the program on the path");
    let output = Desk::set().run(&format!("export {rest}"));
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert_eq!(lines[1], format!("{} me -> task: implement user auth", lines[0]));
}

#[test]
fn the_tour_goes_as_described() {
    let desk = Desk::set();
    // `exec`, so that the watch ends with the terminal.
    let first = block_with("# terminal 1").replace("fmail watch", "exec fmail watch");
    let terminal = Terminal::open(desk.shell(&first));
    let id = terminal.1.recv_timeout(Duration::from_secs(60)).expect("the first send prints the message's id");

    // A watch does not say when it has begun, so the second terminal tries until the first one has heard it.
    let second = block_with("# terminal 2");
    let heard = |_| {
        let output = desk.run(&second);
        terminal.1.recv_timeout(Duration::from_secs(2)).ok().map(|line| (output, line))
    };
    let (output, line) = (0..20).find_map(heard).expect("the watch prints the direct message");
    assert!(line.ends_with(" coder-1 -> @architect: on it"), "{line}");
    for text in [&*format!("{id} architect -> task: implement user auth"), "working on auth", "NAME", "TOPIC"] {
        assert!(output.contains(text), "`{text}` is missing:\n{output}");
    }
}

#[test]
fn a_fast_answer_is_not_missed() {
    let desk = Desk::set();
    let block = block_with("--since \"$id\"");
    let (ask, wait) = block.split_once("\nfmail watch").expect("the block asks, then waits");
    let answer = "FMAIL_AGENT=analyzer fmail send @architect '2 issues found' >/dev/null";
    let output = desk.run(&format!("export FMAIL_AGENT=architect\n{ask}\n{answer}\nfmail watch{wait}"));
    assert!(output.ends_with(" analyzer -> @architect: 2 issues found\n"), "{output}");
}
