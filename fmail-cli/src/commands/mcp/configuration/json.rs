//! Servers in JSON: Claude Code's and Gemini CLI's.

use fmail_api::Result;
use serde_json::{Map, Value, json};

use super::servers::{Traces, unusable};
use crate::agent_files::json::{Document, Kind, Node};

/// The key under which both keep their servers.
const SERVERS: &str = "mcpServers";

/// A configuration in JSON.
pub(super) struct JsonServers {
    document: Document,
}

impl JsonServers {
    pub(super) fn parse(text: String, comments: bool) -> Result<JsonServers> {
        let document = Document::parse(text, comments).map_err(unusable)?;
        if !matches!(document.root.kind, Kind::Object(_)) {
            return Err(unusable(format!("it is {}, not an object", document.root.what())));
        }
        if document.root.times(SERVERS) > 1 {
            return Err(unusable(format!("it has the key `{SERVERS}` more than once")));
        }
        if let Some(servers) = document.root.get(SERVERS) {
            let Kind::Object(members) = &servers.kind else {
                return Err(unusable(format!("`{SERVERS}` is {}, not an object", servers.what())));
            };
            if let Some(twice) = members.iter().find(|member| servers.times(&member.key) > 1) {
                return Err(unusable(format!("it has the server `{}` more than once", twice.key)));
            }
        }
        Ok(JsonServers { document })
    }

    pub(super) fn text(&self) -> &str {
        &self.document.text
    }

    fn servers(&self) -> Option<&Node> {
        self.document.root.get(SERVERS)
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        self.document.value(self.servers()?.get(name)?)
    }

    pub(super) fn with(&self, name: &str, entry: &Map<String, Value>) -> (String, Traces) {
        let inside = |node: &Node| node.is_empty().then(|| self.text()[node.inner()].to_string());
        let root = &self.document.root;
        match self.servers() {
            None => {
                let text = self.document.with(root, 0, Some(SERVERS), &json!({name: entry}));
                (text, Traces { created: true, empty_root: inside(root), ..Traces::default() })
            }
            Some(servers) => {
                let text = self.document.with(servers, 1, Some(name), &json!(entry));
                (text, Traces { empty_servers: inside(servers), ..Traces::default() })
            }
        }
    }

    pub(super) fn without(&self, name: &str, traces: Option<&Traces>) -> String {
        let root = &self.document.root;
        let Some((servers, place)) = self.servers().and_then(|servers| Some((servers, servers.place(name)?))) else {
            return self.text().to_string();
        };
        let alone = matches!(&servers.kind, Kind::Object(members) if members.len() == 1);
        match root.place(SERVERS) {
            Some(around) if alone && traces.is_none_or(|traces| traces.created) => {
                self.document.without(root, around, traces.and_then(|traces| traces.empty_root.as_deref()))
            }
            _ => self.document.without(servers, place, traces.and_then(|traces| traces.empty_servers.as_deref())),
        }
    }
}
