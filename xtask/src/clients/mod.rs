//! `cargo xtask clients`: MCP clients that others wrote, for the tests that run them against our server.
//!
//! `tests/clients` names every package with its version. They go below the target directory and stay as they are until
//! one of those lists changes.

mod node;
mod python;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fmail_api::{Error, ErrorKind, Result};

use crate::cargo;
use crate::install::doing;

/// Install the MCP clients of others that the tests run
#[derive(Debug, clap::Args)]
pub struct Clients {}

impl Clients {
    /// Installs what is missing and says where everything is.
    pub fn run(&self) -> Result<()> {
        provide()?;
        for set in Set::ALL {
            println!("{}", installed(set)?.packages.display());
        }
        Ok(())
    }
}

/// Clients that are installed in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// The newest in Python, and the generator of arguments.
    Newest,
    /// The last in Python before the protocol of 2026.
    Previous,
    /// Those in JavaScript.
    Node,
}

/// What runs the programs of a set.
#[derive(Debug, Clone)]
pub struct Interpreter {
    /// The program.
    pub program: PathBuf,
    /// Where the packages are: an environment of Python, or `node_modules`.
    pub packages: PathBuf,
}

impl Set {
    /// All of them.
    pub const ALL: [Set; 3] = [Set::Newest, Set::Previous, Set::Node];

    fn name(self) -> &'static str {
        match self {
            Set::Newest => "newest",
            Set::Previous => "previous",
            Set::Node => "node",
        }
    }

    /// The lists that name the packages.
    fn lists(self) -> &'static [&'static str] {
        match self {
            Set::Newest => &["python/newest.txt"],
            Set::Previous => &["python/previous.txt"],
            Set::Node => &["node/package.json", "node/package-lock.json"],
        }
    }

    fn install(self) -> Result<()> {
        let directory = directory(self.name());
        match self {
            Set::Newest | Set::Previous => python::install(&directory, &list(self.lists()[0])),
            Set::Node => node::install(&directory, self.lists()),
        }
    }

    fn interpreter(self) -> Result<Interpreter> {
        let directory = directory(self.name());
        match self {
            Set::Newest | Set::Previous => {
                Ok(Interpreter { program: directory.join("bin/python"), packages: directory })
            }
            Set::Node => Ok(Interpreter { program: node::program()?, packages: directory.join("node_modules") }),
        }
    }
}

/// What runs the programs of a set; an error when the set is not installed. Installs nothing.
pub fn installed(set: Set) -> Result<Interpreter> {
    if !is_current(set.name(), set.lists())? {
        let what = format!("the MCP clients `{}` are not installed", set.name());
        return Err(Error::new(ErrorKind::NotFound, what).help("run `cargo xtask clients`"));
    }
    set.interpreter()
}

/// Installs every set that is missing or not as its lists say. The error names all that failed, and why.
pub fn provide() -> Result<()> {
    let top = cargo::target().join("clients");
    fs::create_dir_all(&top).map_err(doing("creating", &top))?;
    let lock = top.join("lock");
    let held = File::create(&lock).map_err(doing("creating", &lock))?;
    held.lock().map_err(doing("locking", &lock))?;

    let failed: Vec<Error> = std::thread::scope(|scope| {
        let running = Set::ALL.map(|set| scope.spawn(move || renew(set.name(), set.lists(), || set.install())));
        let ended = running.map(|set| set.join().unwrap_or_else(|_| Err(Error::internal("an installation panicked"))));
        ended.into_iter().filter_map(Result::err).collect()
    });
    let reasons: Vec<String> = failed.iter().map(Error::to_string).collect();
    match reasons.is_empty() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Unavailable, reasons.join("\n"))
            .help("the packages come from PyPI and from npm; see tests/clients for what is needed")),
    }
}

/// Installs into an emptied directory, unless what is there was installed from the same lists. What is written last says
/// from which lists it was: an installation that was interrupted is begun again.
fn renew(name: &str, lists: &[&str], install: impl FnOnce() -> Result<()>) -> Result<()> {
    if is_current(name, lists)? {
        return Ok(());
    }
    let directory = directory(name);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(doing("removing", &directory)(error)),
        _ => {}
    }
    fs::create_dir_all(&directory).map_err(doing("creating", &directory))?;
    eprintln!("installing {} for the tests, into {}", lists[0], directory.display());
    install().map_err(|error| {
        let help = error.help_text().map(|help| format!(" ({help})")).unwrap_or_default();
        Error::new(error.kind(), format!("{} cannot be installed: {}{help}", lists[0], error.message()))
    })?;
    let stamp = directory.join(STAMP);
    fs::write(&stamp, contents(lists)?).map_err(doing("writing", &stamp))
}

const STAMP: &str = "installed-from";

fn is_current(name: &str, lists: &[&str]) -> Result<bool> {
    let wanted = contents(lists)?;
    Ok(fs::read_to_string(directory(name).join(STAMP)).is_ok_and(|there| there == wanted))
}

fn contents(lists: &[&str]) -> Result<String> {
    let read = |name: &&str| fs::read_to_string(list(name)).map_err(doing("reading", &list(name)));
    lists.iter().map(read).collect()
}

/// Where a list of packages is.
fn list(name: &str) -> PathBuf {
    cargo::workspace().join("tests/clients").join(name)
}

/// Where something is installed.
fn directory(name: &str) -> PathBuf {
    cargo::target().join("clients").join(name)
}

/// Runs a command quietly. When it fails, the error has what it said.
fn quietly(command: &mut Command) -> Result<String> {
    let line = cargo::describe(command);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| Error::io(format_args!("starting `{line}`"), &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(Error::new(ErrorKind::Unavailable, format!("`{line}` ended with {}:\n{}", output.status, excerpt(&said))))
}

/// The beginning and the end of what a program said: npm tells the cause first, pip tells it last.
fn excerpt(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [first, second, third, .., last_but_one, last] if lines.len() > 6 => {
            [first, second, third, &"…", last_but_one, last].map(|line| format!("    {line}")).join("\n")
        }
        few => few.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"),
    }
}

/// Copies a file into a directory, under its own name.
fn copy(file: &Path, directory: &Path) -> Result<()> {
    let to = directory.join(file.file_name().unwrap_or_default());
    fs::copy(file, &to).map(drop).map_err(doing("copying", file))
}
