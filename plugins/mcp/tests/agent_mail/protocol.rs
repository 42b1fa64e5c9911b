//! MCP itself: its revisions, its methods, its mistakes.

use fmail_mcp::Outcome;
use serde_json::{Value, json};

use crate::client::{Client, PROJECT};

const META: &str = "io.modelcontextprotocol/protocolVersion";

#[test]
fn every_revision_that_is_known_is_agreed_to_and_others_get_the_newest() {
    let client = Client::in_memory();
    let agreed = |version: Value| {
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        client.request("initialize", params)["result"].clone()
    };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(agreed(json!(version))["protocolVersion"], version);
    }
    // The newest has no `initialize`: whoever begins with one is offered the newest that has.
    for version in [json!("2026-07-28"), json!("1999-01-01"), json!(null), json!(7)] {
        assert_eq!(agreed(version)["protocolVersion"], "2025-11-25");
    }
    let about = agreed(json!("2025-06-18"));
    assert_eq!(about["serverInfo"]["name"], "fmail");
    assert_eq!(about["capabilities"]["resources"]["subscribe"], true);
    assert!(about["capabilities"]["tools"].is_object() && about["capabilities"].get("prompts").is_none());
    assert!(about["instructions"].is_string() && about.get("resultType").is_none());
}

#[test]
fn the_newest_revision_is_discovered_and_marks_its_results() {
    let client = Client::with_agents();
    let newest = |method: &str, more: Value| {
        let mut params = json!({"_meta": {META: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}});
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        client.request(method, params)["result"].clone()
    };
    let discovered = newest("server/discover", json!({}));
    assert_eq!(discovered["supportedVersions"][4], "2026-07-28");
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fmail");
    for (method, more, cached) in [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("prompts/list", json!({}), true),
        ("resources/read", json!({"uri": "resource://inbox/GreenDog"}), true),
        ("tools/call", json!({"name": "health_check"}), false),
        ("tools/call", json!({"name": "no_such_tool"}), false),
    ] {
        let result = newest(method, more);
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!((result["ttlMs"].is_u64(), result["cacheScope"] == "private"), (cached, cached), "{method}");
    }
    for method in ["tools/list", "resources/read"] {
        let plain = client.request(method, json!({"uri": "resource://inbox/GreenDog"}));
        assert!(plain["result"].get("resultType").is_none() && plain["result"].get("ttlMs").is_none());
    }
    let mut by_header = client.in_session("s");
    by_header.peer.protocol = Some("2026-07-28".into());
    assert_eq!(by_header.request("tools/list", json!({}))["result"]["resultType"], "complete");
}

#[test]
fn a_revision_that_is_not_spoken_is_told_with_those_that_are() {
    let client = Client::in_memory();
    let answer = client.request("server/discover", json!({"_meta": {META: "2031-01-01"}}));
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["requested"], "2031-01-01");
    assert_eq!(answer["error"]["data"]["supported"].as_array().unwrap().len(), 5);
    assert_eq!(client.request("tools/list", json!({"_meta": {META: 7}}))["error"]["code"], -32602);
    assert!(client.request("tools/list", json!({"_meta": {META: "2025-11-25"}}))["result"]["tools"].is_array());
}

#[test]
fn methods_beside_tools_and_resources_answer() {
    let client = Client::in_memory();
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    assert_eq!(client.request("logging/setLevel", json!({"level": "debug"}))["result"], json!({}));
    assert_eq!(client.request("prompts/list", Value::Null)["result"]["prompts"], json!([]));
    for method in ["completion/complete", "prompts/get", "tools/fly", "", "tasks/get"] {
        assert_eq!(client.request(method, json!({}))["error"]["code"], -32601, "{method}");
    }
    for method in ["notifications/initialized", "notifications/cancelled", "notifications/whatever"] {
        assert!(matches!(client.handle(json!({"jsonrpc": "2.0", "method": method})), Outcome::Accepted));
    }
}

#[test]
fn an_outage_is_an_error_and_never_an_empty_list() {
    use std::path::Path;
    use std::sync::Arc;

    use async_trait::async_trait;
    use fmail_api::{Error, ErrorKind, HostedProject, Result};
    use fmail_mcp::{Backend, Caller, Reply, Server};

    struct Down;
    fn down<T>() -> Result<T> {
        Err(Error::new(ErrorKind::Unavailable, "the disk does not answer"))
    }
    #[async_trait]
    impl Backend for Down {
        async fn find(&self, _: &Path, _: bool) -> Result<HostedProject> {
            down()
        }
        async fn hosted(&self) -> Result<Vec<HostedProject>> {
            down()
        }
        async fn request(&self, _: &Caller, _: serde_json::Value) -> Result<Reply> {
            down()
        }
    }
    let mut client = Client::in_memory();
    client.server = Arc::new(Server::new(Arc::new(Down), fmail_mcp::Options::default()));
    for (tool, arguments) in [
        ("health_check", json!({})),
        ("fetch_inbox", json!({"project_key": PROJECT, "agent_name": "GreenDog"})),
        ("search_messages", json!({"project_key": PROJECT, "query": "x"})),
        ("summarize_thread", json!({"project_key": "slug", "thread_id": "x"})),
    ] {
        let (kind, text) = client.fails(tool, arguments);
        assert_eq!((&*kind, &*text), ("UNAVAILABLE", "the disk does not answer"), "{tool}");
    }
    assert_eq!(client.unreadable("resource://inbox/GreenDog")["code"], -32603);
    assert_eq!(client.request("resources/list", json!({}))["error"]["code"], -32603);
}
