//! Where the workspace is, and how cargo is called in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_api::{Error, Result};

/// The directory of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The target directory that the running program was built into.
///
/// Found by the tag that cargo puts there, since the directory can be moved by a flag, a variable and several
/// configuration files.
pub fn target() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|exe| exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).map(Path::to_path_buf))
        .unwrap_or_else(|| workspace().join("target"))
}

/// A call of the cargo that runs us, in the workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    command
}

/// Runs a command to its end; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command.status().map_err(|error| Error::io(format_args!("starting `{line}`"), &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::internal(format!("`{line}` failed: {status}")))
}

/// The command as a reader would type it.
pub fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Builds the programs with optimisation and says where `fmail` is; the others lie beside it.
///
/// One after the other, `fmail` last: built together, `fmail` would get the features that only the daemon asks of their
/// common dependencies, and load a further library with every start.
pub fn build_release() -> Result<PathBuf> {
    build_release_of(&["fmail-plugin-check", "forged", "fmail-cli"])
}

/// Builds the programs of these packages with optimisation and says where `fmail` is.
pub fn build_release_of(packages: &[&str]) -> Result<PathBuf> {
    for package in packages {
        run(&mut cargo(&["build", "--release", "--package", package, "--bins"]))?;
    }
    Ok(target().join("release/fmail"))
}

/// Builds plugins with optimisation; they lie beside the programs.
pub fn build_release_plugins(packages: &[&str]) -> Result<()> {
    packages.iter().try_for_each(|package| run(&mut cargo(&["build", "--release", "--package", package, "--lib"])))
}

/// Builds every program and every plugin of the workspace as the tests use it and says where `fmail` is; the others lie
/// beside it.
///
/// The whole workspace and not one package: cargo picks features for what it is asked to build, and asking for less
/// would compile the dependencies a second time.
pub fn build_debug() -> Result<PathBuf> {
    run(&mut cargo(&["build", "--workspace"]))?;
    Ok(target().join("debug/fmail"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The packages that cargo takes into account for these kinds of dependencies, each with its features.
    fn packages(kinds: &str) -> BTreeSet<String> {
        let arguments =
            ["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p} {f}", "--edges", kinds];
        let answer = cargo(&arguments).output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        let text = String::from_utf8_lossy(&answer.stdout);
        text.lines().map(|line| line.trim_end_matches(" (*)").trim_end().to_string()).collect()
    }

    #[test]
    fn the_programs_that_tests_run_are_compiled_with_the_features_that_tests_want() {
        let (programs, tests) = (packages("normal,build"), packages("normal,build,dev"));
        let otherwise: Vec<_> = programs.difference(&tests).collect();
        assert!(otherwise.is_empty(), "compiled twice; tests/features/Cargo.toml asks for the features: {otherwise:?}");
    }
}
