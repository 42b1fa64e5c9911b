//! `summarize_thread`: who took part in a thread, what was said and what is to be done.

use serde_json::{Map, Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::names::Directory;
use crate::rows::BCC_OF;
use crate::summary::Summary;
use crate::tool::{Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::visit::{Letter, Project, Visit};
use crate::{ids, threads};

/// The most threads in one call.
const MOST_THREADS: usize = 50;
/// So many messages are shown as examples.
const EXAMPLES: usize = 3;

pub(super) static TOOL: Tool = Tool {
    name: "summarize_thread",
    about: "Participants, key points, action items and mentions of a thread, or of several separated by commas.",
    offered: Profile::Standard,
    effect: Effect::Reads,
    parameters: &[
        PROJECT,
        Parameter::required("thread_id", Takes::Text),
        Parameter::optional("include_examples", Takes::Flag),
        Parameter::optional("per_thread_limit", Takes::Number(1, 10_000)).about("Only the newest so many messages."),
    ],
    // No model is asked, whatever is said about it.
    ignored: &["llm_mode", "llm_model"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let limit = arguments.number("per_thread_limit");
    let examples = arguments.flag("include_examples").unwrap_or_default();
    let named: Vec<&str> =
        arguments.required("thread_id")?.split(',').map(str::trim).filter(|thread| !thread.is_empty()).collect();
    match named.as_slice() {
        [] => Err(Failure::argument("thread_id is empty. Name a thread, or several separated by commas.")),
        [thread] => {
            let digest = Digest::of(&project, thread, limit).await?;
            Ok(Answer::Object(digest.fields(examples).into()))
        }
        many if many.len() > MOST_THREADS => Err(Failure::argument(format!(
            "thread_id names {} threads, at most {MOST_THREADS} are summarised at once.",
            many.len()
        ))),
        many => {
            let (mut threads, mut all) = (Vec::new(), Summary::default());
            for thread in many {
                let digest = Digest::of(&project, thread, limit).await?;
                all.join(&digest.summary);
                let mut fields = digest.fields(false);
                fields.remove("examples");
                threads.push(Value::from(fields));
            }
            Ok(Answer::Object(json!({"threads": threads, "aggregate": all.aggregate()})))
        }
    }
}

/// A thread and what it is about.
pub(super) struct Digest {
    thread: String,
    letters: Vec<Letter>,
    names: Directory,
    summary: Summary,
    total: usize,
}

impl Digest {
    /// Reads a thread.
    pub(super) async fn of(project: &Project, thread: &str, limit: Option<u64>) -> Result<Digest> {
        let mut letters = read(project, thread).await?;
        let total = letters.len();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        letters.drain(..total.saturating_sub(limit));
        let names = Directory::of(project, letters.iter().map(|letter| &letter.message.from)).await?;
        let mut summary = Summary::default();
        for letter in &letters {
            summary.add(names.shown(&letter.message.from), letter);
        }
        Ok(Digest { thread: thread.into(), letters, names, summary, total })
    }

    /// How many messages the thread has.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The summary as it is told.
    pub(super) fn fields(&self, examples: bool) -> Map<String, Value> {
        let mut summary = self.summary.fields();
        if self.summary.messages() < self.total as u64 {
            summary.insert("total_messages".into(), self.total.into());
            summary.insert("summarised_messages".into(), self.summary.messages().into());
        }
        let shown = if examples { EXAMPLES } else { 0 };
        let examples: Vec<Value> = self.letters.iter().take(shown).map(|letter| self.example(letter)).collect();
        let mut fields =
            rmcp::model::object(json!({"thread_id": self.thread, "summary": summary, "examples": examples}));
        if self.total == 0 {
            fields.insert("note".into(), format!("No message is in a thread '{}'.", self.thread).into());
        }
        fields
    }

    fn example(&self, letter: &Letter) -> Value {
        let message = &letter.message;
        json!({
            "id": message.id.number(),
            "subject": message.subject.as_deref().unwrap_or_default(),
            "from": self.names.shown(&message.from),
            "created_ts": ids::time(ids::sent(message.id, message.time)),
        })
    }
}

/// The messages of a thread, the oldest first, whoever may read them; blind copies are nobody's business.
pub(crate) async fn read(project: &Project, thread: &str) -> Result<Vec<Letter>> {
    let name = threads::named(project, thread).await?;
    let mut letters = project.overview().letters("thread", json!({"id": name})).await?;
    letters.retain(|letter| !letter.message.extra.contains_key(BCC_OF));
    Ok(letters)
}
