//! Opening a store by the name that it would have in the configuration.

use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Result, Store};
use fmail_host::{Environment, Project, Settings, open_named};

use crate::output::reporter;
use crate::session::overrides;

/// Opens the store of this name as `mail.store` would; without a name the one that is configured.
pub(super) fn open(
    environment: &Environment,
    project: &Project,
    set: &[String],
    name: Option<&str>,
) -> Result<Arc<dyn Store>> {
    let mut overrides = overrides(set)?;
    // Named in the settings, so that a plugin is searched for as it would be for every other command.
    overrides.extend(name.map(|name| ("mail.store".to_string(), name.to_string())));
    let settings = Settings::load(environment, Some(project), &overrides)?;
    let name = settings.mail.store.as_str();
    let store = open_named(project, &settings, name, reporter())?;
    if !store.capabilities().shared {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("the store `{name}` lives in one process: another one neither sees nor keeps what it holds"),
        )
        .help("name a store that outlives its process"));
    }
    Ok(store)
}
