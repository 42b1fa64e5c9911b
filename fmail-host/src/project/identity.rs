//! Which files these are: two clones of one project have one id, and are still two places.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use fmail_api::{Error, Result, hex_sha256};

use super::Project;

impl Project {
    /// What a daemon tells in `hello` and a client compares, so that one clone never sends into another clone's files;
    /// nothing when there are no files yet.
    ///
    /// Made of the directory itself and not of its path, which two containers may both call `/work`. The number of the
    /// current boot keeps two machines apart; it need not last, because both sides ask at the same time.
    pub fn store_id(&self) -> Result<Option<String>> {
        let directory = self.fmail_dir();
        let metadata = match fs::symlink_metadata(&directory) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(format_args!("cannot look at {}", directory.display()), &error)),
        };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let text = format!("{}:{}:{}", boot.trim(), metadata.dev(), metadata.ino());
        Ok(Some(hex_sha256(text.as_bytes())[..32].to_string()))
    }
}
