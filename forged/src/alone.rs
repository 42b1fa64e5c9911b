//! A daemon without a project of its own: it serves what clients name by path, through transports that are plugins.

use std::path::PathBuf;

use fmail_api::{Error, ErrorKind, Result};
use fmail_host::hosting::{make_private, user_data};
use fmail_host::{Environment, Settings};

use crate::lock::RootLock;
use crate::plugins::Named;

/// What such a daemon has instead of a project: a directory, which it alone uses, and the transports of the user's and the
/// system's configuration.
pub struct Alone {
    pub directory: PathBuf,
    pub lock: RootLock,
    pub plugins: Named,
}

/// Its directory.
pub fn directory(environment: &Environment) -> Result<PathBuf> {
    Ok(user_data(environment)?.join("forged"))
}

impl Alone {
    /// Takes the directory, or tells who has it.
    pub fn new(environment: &Environment, settings: &Settings) -> Result<Alone> {
        let plugins = Named::from(settings)?;
        if !plugins.listens() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                "without a project forged listens through plugins only, and mail.transports names none",
            )
            .context("origin", format_args!("mail.transports ({})", settings.origin("mail.transports")))
            .help("for MCP: `FMAIL_TRANSPORTS=http forged --no-project`"));
        }
        let directory = directory(environment)?;
        make_private(&directory)?;
        let lock = RootLock::take(&directory)?;
        Ok(Alone { directory, lock, plugins })
    }
}
