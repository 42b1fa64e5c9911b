//! `register_agent`: gives a client its identity.

use fmail_api::{AgentName, AgentView, Profile as Told, Registered};
use serde_json::{Map, Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::names::{self, display};
use crate::rows;
use crate::tool::{Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::visit::{Project, Visit, taken};

/// What an agent can say about attachments. fmail has none, so that it is kept and told and nothing else.
pub(super) const POLICY: Parameter =
    Parameter::optional("attachments_policy", Takes::Word(&["auto", "inline", "file", "none"]));

pub(super) static TOOL: Tool = Tool {
    name: "register_agent",
    about: "Register an agent, or update one that comes back. Without a name it gets a generated one. The answer's `name` \
            counts.",
    offered: Profile::Minimal,
    effect: Effect::Settles,
    parameters: &[
        PROJECT,
        Parameter::optional("name", Takes::Text).or(&["agent_name"]),
        Parameter::optional("program", Takes::Text).about("E.g. claude-code."),
        Parameter::optional("model", Takes::Text),
        Parameter::optional("task_description", Takes::Text),
        POLICY,
    ],
    ignored: &["auto_contact_if_blocked", "reaper_exempt", "pane_id", "registration_proof"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let registration = Registration {
        name: arguments.text("name"),
        program: arguments.words("program"),
        model: arguments.words("model"),
        task: arguments.text("task_description"),
        attachments_policy: arguments.text("attachments_policy"),
    };
    Ok(Answer::Object(registration.register(&project).await?.1.into()))
}

/// What a client says about its agent.
pub(super) struct Registration<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) program: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    pub(super) task: Option<&'a str>,
    pub(super) attachments_policy: Option<&'a str>,
}

impl Registration<'_> {
    /// Registers the agent: the agent, and what the client is told about it.
    pub(super) async fn register(&self, project: &Project) -> Result<(AgentView, Map<String, Value>)> {
        let wanted = self.name.filter(|name| !name.trim().is_empty());
        let name = match wanted {
            Some(wanted) => self.come(project, wanted).await?,
            None => self.generated(project).await?,
        };
        let view = project.known(&[&name]).await?.pop();
        let view =
            view.ok_or_else(|| Failure::from(fmail_api::Error::internal(format!("the agent `{name}` is not there"))))?;
        let mut answer = rows::agent(project, &view);
        if let Some(note) = self.note(&view) {
            answer.insert("requested_name".into(), json!(self.name));
            answer.insert("note".into(), note.into());
        }
        Ok((view, answer))
    }

    /// That the name is not the one that was asked for.
    fn note(&self, view: &AgentView) -> Option<String> {
        let (wanted, shown) = (self.name?, display(view));
        if wanted.trim().is_empty() {
            return Some(format!("The requested name is empty, so a name was generated: '{shown}'."));
        }
        let bare = names::bare(wanted);
        if bare != shown {
            return Some(format!(
                "'{bare}' and '{shown}' are one agent: capitals make no difference. It is shown as '{shown}'."
            ));
        }
        (wanted != shown)
            .then(|| format!("The name is '{shown}': blanks around it and an @ before it are no part of a name."))
    }

    /// The agent of this name, new or not. How it is shown was settled when it first came.
    async fn come(&self, project: &Project, wanted: &str) -> Result<AgentName> {
        let name = names::agent("name", wanted)?;
        let before = project.known(&[&name]).await?.pop();
        let shown_already = before.is_some_and(|view| view.profile.display.is_some());
        let written = names::bare(wanted);
        let display = Some(written.to_string()).filter(|written| !shown_already && *written != name.foreign());
        let profile = Told { display, ..self.profile() };
        let request = json!({"name": name, "again": true, "profile": profile});
        project.desk(&name).run("register", request).await?;
        Ok(name)
    }

    async fn generated(&self, project: &Project) -> Result<AgentName> {
        let request = json!({"one_word": true, "profile": self.profile()});
        let mut answer = project.overview().run("register", request).await?;
        Ok(taken::<Registered>(&mut answer, "registered")?.name)
    }

    fn profile(&self) -> Told {
        let extra = self.attachments_policy.map(|policy| ("attachments_policy".to_string(), Value::from(policy)));
        Told {
            display: None,
            program: self.program.map(Into::into),
            model: self.model.map(Into::into),
            task: self.task.map(Into::into),
            extra: extra.into_iter().collect(),
        }
    }
}
