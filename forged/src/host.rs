//! The projects that this daemon serves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Client, Error, ErrorKind, Host, HostedProject, ProjectRef, Result};

use crate::client::Served;
use crate::found::Found;

/// Finds served projects by directory and by id.
#[derive(Default)]
pub struct Projects {
    by_root: HashMap<PathBuf, Arc<Served>>,
    /// Two clones of one project have one id. Only the first is found by it.
    by_id: HashMap<String, (PathBuf, Arc<Served>)>,
    /// What is found by its path, for those who may ask for that.
    found: Option<Arc<Found>>,
}

impl Projects {
    /// The same, and every project that is found by its path.
    #[must_use]
    pub fn and_found(mut self, found: Arc<Found>) -> Self {
        self.found = Some(found);
        self
    }

    /// The projects that were added.
    pub fn served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.by_root.values()
    }

    fn found(&self, path: &Path) -> Result<&Arc<Found>> {
        self.found.as_ref().ok_or_else(|| {
            let text = format!("projects are not found by their paths here: {}", path.display());
            Error::new(ErrorKind::Unsupported, text)
        })
    }

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
        let served = match &project {
            ProjectRef::Id(id) => self.by_id.get(id).map(|(_, client)| client),
            ProjectRef::Root(root) => self.by_root.get(root),
        };
        match (served, &project, &self.found) {
            (Some(client), _, _) => Ok(client.clone()),
            (None, ProjectRef::Root(root), Some(found)) => found.open(root).await,
            _ => Err(Error::new(ErrorKind::InvalidProject, "this daemon does not serve the project that is named")
                .help("start forged in the project's directory, or name the directory when starting it")),
        }
    }

    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        self.found(path)?.find(path, create).await
    }

    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        match &self.found {
            Some(found) => found.hosted().await,
            None => Ok(Vec::new()),
        }
    }
}
