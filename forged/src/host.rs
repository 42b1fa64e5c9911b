//! The projects that this daemon serves.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Client, Error, ErrorKind, Host, ProjectRef, Result};

use crate::client::Served;

/// Finds served projects by directory and by id.
#[derive(Default)]
pub struct Projects {
    by_root: HashMap<PathBuf, Arc<Served>>,
    /// Two clones of one project have one id. Only the first is found by it.
    by_id: HashMap<String, (PathBuf, Arc<Served>)>,
}

impl Projects {
    /// Adds a project; the error names the project that has the same id already. The project is served all the same, on
    /// its own socket.
    pub fn add(&mut self, root: PathBuf, client: Arc<Served>) -> Result<()> {
        self.by_root.insert(root.clone(), client.clone());
        let id = client.project_id.clone();
        if let Some((first, _)) = self.by_id.get(&id) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "{} and {} have one project id, {id}: over TCP it means the first, the second is reached by its \
                     socket only",
                    first.display(),
                    root.display()
                ),
            )
            .help("give one of them an id of its own: `fmail init --project ID`"));
        }
        self.by_id.insert(id, (root, client));
        Ok(())
    }
}

#[async_trait]
impl Host for Projects {
    async fn projects(&self) -> Result<Vec<String>> {
        let mut ids: Vec<String> = self.by_id.keys().cloned().collect();
        ids.sort();
        Ok(ids)
    }

    async fn open(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        let found = match &project {
            ProjectRef::Id(id) => self.by_id.get(id).map(|(_, client)| client),
            ProjectRef::Root(root) => self.by_root.get(root),
        };
        match found {
            Some(client) => Ok(client.clone()),
            None => Err(Error::new(ErrorKind::InvalidProject, "this daemon does not serve the project that is named")
                .help("start forged in the project's directory, or name the directory when starting it")),
        }
    }
}
