//! A project with a configuration of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fmail_api::{Result, Store};
use fmail_host::plugin::{Instance, Plugin, Role, Surroundings, data_dir};
use fmail_host::{Environment, PluginKind, Project, Settings, open_named};

/// A project, and where its plugins are.
pub struct Place {
    environment: Environment,
    project: Project,
}

impl Place {
    /// The project in this directory. Of the process's own variables only those about plugins count.
    pub fn new(root: &Path) -> Result<Self> {
        let own = Environment::from_process()?;
        let kept = |name: &str| own.var(name).map(|value| (name.to_string(), value.to_string()));
        let mut vars: BTreeMap<_, _> = ["FMAIL_PLUGIN_PATH", "PATH"].into_iter().filter_map(kept).collect();
        vars.insert("FMAIL_ROOT".into(), root.display().to_string());
        vars.insert("HOME".into(), root.display().to_string());
        let environment = Environment::new(root, vars);
        let project = Project::discover(&environment)?;
        Ok(Place { environment, project })
    }

    /// The settings under which `name` is the store.
    fn settings(&self, name: &str, isolation: Option<&str>) -> Result<Settings> {
        let mut environment = self.environment.clone();
        let mut set = |name: String, value: &str| drop(environment.vars.insert(name, value.into()));
        set("FMAIL_STORE".into(), name);
        let section = name.replace('-', "_").to_uppercase();
        isolation.into_iter().for_each(|word| set(format!("FMAIL_PLUGIN__{section}__ISOLATION"), word));
        Settings::load(&environment, Some(&self.project), &[])
    }

    /// Opens a store, with everything that fmail puts around it.
    pub fn store(&self, name: &str) -> Result<Arc<dyn Store>> {
        open_named(&self.project, &self.settings(name, None)?, name, Arc::new(|_| ()))
    }

    /// Makes an instance of a store plugin.
    pub async fn instance(&self, name: &str, isolation: Option<&str>) -> Result<Instance> {
        let settings = self.settings(name, isolation)?;
        let plugin = Plugin::load(&settings.plugin(&name.parse()?), PluginKind::Store)?;
        let surroundings = Surroundings {
            role: Role::Store,
            project: Some(("cost".into(), self.project.root.clone())),
            node: "cost".into(),
            data_dir: data_dir(&self.project, name)?,
            max_message_bytes: Some(1 << 20),
        };
        plugin.instance(&surroundings, None).await
    }
}
