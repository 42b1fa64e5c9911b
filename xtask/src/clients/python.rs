//! Packages of Python, in an environment of their own.

use std::path::Path;
use std::process::Command;

use fmail_api::{Error, ErrorKind, Result};

use super::quietly;
use crate::tools;

/// Makes an environment and installs what the list names, and nothing else: the list is complete, so nobody has to find
/// out what fits together, today or later.
pub fn install(directory: &Path, list: &Path) -> Result<()> {
    let python = python()?;
    quietly(Command::new(python).args(["-m", "venv"]).arg(directory))?;
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"]);
    pip.args(["--no-deps", "--only-binary", ":all:", "--requirement"]).arg(list);
    quietly(&mut pip).map(drop)
}

/// A Python that can make environments. Debian has that in a package of its own.
fn python() -> Result<std::path::PathBuf> {
    let missing = || {
        Error::new(ErrorKind::NotFound, "there is no Python that can make environments")
            .help("on Debian or Ubuntu: sudo apt-get install python3-venv")
    };
    let found = || tools::find("python3").filter(|python| can_make_environments(python));
    match found() {
        Some(python) => Ok(python),
        None => {
            tools::install_where_allowed(&["python3-venv"], "the MCP clients in Python")?;
            found().ok_or_else(missing)
        }
    }
}

fn can_make_environments(python: &Path) -> bool {
    quietly(Command::new(python).args(["-c", "import ensurepip, venv"])).is_ok()
}
