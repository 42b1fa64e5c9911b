//! `fmail-manual DIRECTORY`: man pages and shell completions of fmail and forged, below a directory as they stand below a
//! prefix; `cargo xtask install` runs it.
//!
//! A program of its own, since it has to know both programs: built into `cargo xtask`, every task would wait until all of
//! fmail is compiled.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;

/// A file below the prefix.
type Page = (PathBuf, Vec<u8>);

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: fmail-manual DIRECTORY");
        return ExitCode::from(2);
    };
    match write(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: man pages and completions cannot be written to {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path) -> io::Result<()> {
    for command in [fmail_cli::command(), forged::command()] {
        for (path, content) in completions(&command).into_iter().chain(man_pages(command)?) {
            let file = directory.join(path);
            std::fs::create_dir_all(file.parent().unwrap_or(directory))?;
            std::fs::write(file, content)?;
        }
    }
    Ok(())
}

/// One page for the program and one for each of its commands, from the definitions that also give the help.
fn man_pages(command: clap::Command) -> io::Result<Vec<Page>> {
    fn collect(command: &clap::Command, pages: &mut Vec<Page>) -> io::Result<()> {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            collect(below, pages)?;
        }
        let page = clap_mangen::Man::new(command.clone()).manual("fmail");
        let mut content = Vec::new();
        page.render(&mut content)?;
        pages.push((Path::new("share/man/man1").join(page.get_filename()), content));
        Ok(())
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    Ok(pages)
}

/// The scripts that complete a program's arguments, where the shells look for them.
fn completions(command: &clap::Command) -> Vec<Page> {
    let name = command.get_name();
    let places = [
        (Shell::Bash, format!("share/bash-completion/completions/{name}")),
        (Shell::Zsh, format!("share/zsh/site-functions/_{name}")),
        (Shell::Fish, format!("share/fish/vendor_completions.d/{name}.fish")),
    ];
    let script = |shell| {
        let mut content = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), name, &mut content);
        content
    };
    places.into_iter().map(|(shell, path)| (path.into(), script(shell))).collect()
}
