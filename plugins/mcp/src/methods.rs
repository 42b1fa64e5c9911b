//! The methods of MCP, each from its parameters to its result.

use rmcp::model::{
    CallToolResult, ContentBlock, DiscoverResult, ErrorCode, ErrorData, Implementation, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ProtocolVersion,
    ResourcesCapability, ServerCapabilities, ToolsCapability,
};
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::errors::shown;
use crate::near::near;
use crate::revision::{Outgoing, Revision, agreed};
use crate::rpc::{self, Request};
use crate::subscriptions::{self, Sessions};
use crate::visit::Visit;
use crate::{Outcome, Profile, resources, tools};

/// For so long a client may keep a list that never changes while the server runs.
const LISTS_FRESH_MS: u64 = 60_000;

/// What a model reads about the server before it has called anything.
const INSTRUCTIONS: &str = "Mail and file reservations for coding agents. Start with macro_start_session (or ensure_project \
    and register_agent), with the absolute path of the working directory as project_key. Send with send_message, look with \
    fetch_inbox or wait with wait_for_message, answer with reply_message, and acknowledge what asks for it. Reserve files \
    before editing them, and release them afterwards.";

/// Runs a request.
pub(crate) async fn run(
    visit: &Visit,
    profile: Profile,
    sessions: &Sessions,
    request: Request,
) -> Result<Outcome, ErrorData> {
    let revision = Revision::of(&visit.peer, &request.params)?;
    if request.method == "subscriptions/listen" {
        return subscriptions::listen(visit, request).await.map(Outcome::Stream);
    }
    let Request { id, method, mut params } = request;
    let outgoing = match method.as_str() {
        "initialize" => Outgoing::new(about().with_protocol_version(agreed(&params))),
        "server/discover" => {
            let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
            Outgoing::fresh(DiscoverResult::from_server_info(versions, about()), LISTS_FRESH_MS)
        }
        // A level of logging is taken note of by nobody: nothing is ever logged to clients.
        "ping" | "logging/setLevel" => Outgoing::new(json!({})),
        "tools/list" => {
            let listed = tools::offered(profile).map(|tool| tool.listed()).collect();
            Outgoing::fresh(ListToolsResult::with_all_items(listed), LISTS_FRESH_MS)
        }
        "tools/call" => Outgoing::new(call(visit, profile, &mut params).await?),
        "resources/list" => {
            let listed =
                resources::listed(visit).await.map_err(|failure| resources::refusal(&failure, "", revision))?;
            Outgoing::fresh(ListResourcesResult::with_all_items(listed), 0)
        }
        "resources/templates/list" => {
            Outgoing::fresh(ListResourceTemplatesResult::with_all_items(resources::templates()), LISTS_FRESH_MS)
        }
        "resources/read" => {
            let uri = uri(&params)?;
            let read =
                resources::read(visit, uri).await.map_err(|failure| resources::refusal(&failure, uri, revision))?;
            Outgoing::fresh(read, 0)
        }
        "resources/subscribe" => {
            sessions.subscribe(visit, uri(&params)?).await?;
            Outgoing::new(json!({}))
        }
        "resources/unsubscribe" => {
            sessions.unsubscribe(visit, uri(&params)?)?;
            Outgoing::new(json!({}))
        }
        "prompts/list" => Outgoing::fresh(ListPromptsResult::with_all_items(Vec::new()), LISTS_FRESH_MS),
        other => {
            let message = format!("Method not found: {}", shown(other));
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
        }
    };
    Ok(Outcome::Answer(rpc::answer(&id, outgoing.in_form(revision))))
}

fn uri(params: &Map<String, Value>) -> Result<&str, ErrorData> {
    let uri = params.get("uri").and_then(Value::as_str);
    uri.ok_or_else(|| ErrorData::invalid_params("the address of a resource, `uri`, is missing", None))
}

/// What the server says about itself.
fn about() -> InitializeResult {
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(false);
    capabilities.tools = Some(tools);
    let mut resources = ResourcesCapability::default();
    (resources.subscribe, resources.list_changed) = (Some(true), Some(false));
    capabilities.resources = Some(resources);
    InitializeResult::new(capabilities)
        .with_server_info(Implementation::new("fmail", env!("CARGO_PKG_VERSION")))
        .with_instructions(INSTRUCTIONS)
}

/// Calls a tool. Whatever becomes of it is a result: models read those, and nobody reads an error of the protocol.
async fn call(visit: &Visit, profile: Profile, params: &mut Map<String, Value>) -> Result<CallToolResult, ErrorData> {
    let name = match params.remove("name") {
        Some(Value::String(name)) => name,
        _ => return Err(ErrorData::invalid_params("tools/call needs the name of a tool", None)),
    };
    let given = match params.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(ErrorData::invalid_params("the arguments of a tool are an object", None)),
    };
    let Some(tool) = tools::offered(profile).find(|tool| tool.name == name) else {
        return Ok(unknown_tool(profile, &name));
    };
    let answer = match Arguments::read(tool, given) {
        Ok(arguments) => (tool.run)(visit, arguments).await,
        Err(failure) => Err(failure),
    };
    Ok(match answer {
        Ok(answer) => answer.into_result(),
        Err(failure) => failure.into_result(),
    })
}

fn unknown_tool(profile: Profile, name: &str) -> CallToolResult {
    let alike = near(name, tools::offered(profile).map(|tool| tool.name));
    let hint = match (tools::offered(Profile::Full).find(|tool| tool.name == name), alike.first()) {
        (Some(tool), _) => format!(
            ". This server does not offer it: it belongs to the profile `{}`, which `profile` in the section of the plugin \
             http chooses, or `fmail mcp serve --stdio --profile`",
            tool.offered.name()
        ),
        (None, Some(near)) => format!(". Did you mean: {near}?"),
        (None, None) => String::new(),
    };
    CallToolResult::error(vec![ContentBlock::text(format!("Unknown tool: {}{hint}", shown(name)))])
}
