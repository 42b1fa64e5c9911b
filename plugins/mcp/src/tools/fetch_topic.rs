//! `fetch_topic`: the messages of one of fmail's topics, which every agent may read.

use fmail_api::Message;
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::rows::Rows;
use crate::tool::{Answer, Effect, Listed, PROJECT, Parameter, Takes, Tool};
use crate::tools::fetch_inbox::MOST;
use crate::visit::{Visit, has_more};

pub(super) static TOOL: Tool = Tool {
    name: "fetch_topic",
    about: "The messages of a topic, newest first.",
    offered: Profile::Full,
    effect: Effect::Reads,
    parameters: &[
        PROJECT,
        Parameter::required("topic_name", Takes::Text).or(&["topic"]),
        Parameter::optional("limit", Takes::Number(1, MOST)).about("Default 20."),
        Parameter::optional("include_bodies", Takes::Flag),
        Parameter::optional("since_ts", Takes::Text),
    ],
    ignored: &["agent_name"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let topic: fmail_api::Topic = arguments
        .required("topic_name")?
        .parse()
        .map_err(|error: fmail_api::Error| Failure::argument(format!("topic_name: {error}.")))?;
    let limit = arguments.number("limit").unwrap_or(20);
    let request = json!({"topic": topic, "limit": limit, "since": arguments.time("since_ts")?});
    let (head, letters) = project.overview().mail("log", request).await?;
    let mut messages: Vec<Message> = letters.map_ok(|letter| letter.message).try_collect().await?;
    messages.reverse();
    let rows = Rows::of(&project, &messages).await?;
    let bodies = arguments.flag("include_bodies").unwrap_or_default();
    let rows: Vec<Value> = messages.iter().map(|message| rows.message(message, bodies).into()).collect();
    Ok(Answer::List(Listed { rows, more: has_more(&head), note: None }))
}
