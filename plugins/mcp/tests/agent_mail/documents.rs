//! docs/mcp-tools.md is about the tools that there are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::client::Client;

const DOCUMENT: &str = include_str!("../../../../docs/mcp-tools.md");

/// The texts in backquotes.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_table_has_every_tool_with_its_parameters() {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 4);
    let mut documented = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].split('`').nth(1).unwrap();
        documented.insert(name, quoted(cells[2]));
    }
    documented.retain(|name, _| !name.contains("://"));
    let tools = Client::in_memory().request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(documented.len(), tools.len());
    for tool in &tools {
        let names = &documented[tool["name"].as_str().unwrap()];
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        for parameter in properties.keys().filter(|name| *name != "project_key") {
            assert!(names.contains(parameter.as_str()), "{}: {parameter} is not in the table", tool["name"]);
        }
        let unknown: Vec<_> = names
            .iter()
            .filter(|name| !properties.contains_key(**name) && **name != "file_reservation_paths")
            .collect();
        assert!(unknown.is_empty(), "{}: {unknown:?} are in the table and no parameters", tool["name"]);
    }
}
