//! `cargo xtask uninstall`: takes away what `install` put under a prefix, and nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};

use crate::install::doing;
use crate::manifest::{self, Manifest};

/// Remove what install put under a prefix
#[derive(Debug, clap::Args)]
pub struct Uninstall {
    /// The prefix that was given to install
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

impl Uninstall {
    /// Removes the files of the installation's list, the list, and the directories that are empty then.
    pub fn run(&self) -> Result<()> {
        let Some(manifest) = Manifest::read(&self.prefix)? else {
            return Err(Error::not_found(format!("there is no installation under {}", self.prefix.display()))
                .help(format!("{} lists what was installed", self.prefix.join(manifest::PATH).display())));
        };
        // The list goes last among the files: an interrupted removal can be repeated.
        for path in manifest.files.iter().map(PathBuf::as_path).chain([Path::new(manifest::PATH)]) {
            let file = self.prefix.join(path);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(doing("removing", &file)(error)),
                _ => {}
            }
        }
        let mut kept: Vec<&Path> = Vec::new();
        for path in manifest.directories.iter().rev() {
            let directory = self.prefix.join(path);
            match fs::remove_dir(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    if !kept.iter().any(|below| below.starts_with(path)) {
                        eprintln!("kept {}: it holds files that were not installed", directory.display());
                    }
                    kept.push(path);
                }
                Err(error) => return Err(doing("removing", &directory)(error)),
            }
        }
        println!("removed {} files from {}", manifest.files.len(), self.prefix.display());
        Ok(())
    }
}
