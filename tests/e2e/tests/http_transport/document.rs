//! docs/plugins/http.md, held to what the plugin says of itself.

use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Sandbox, workspace};
use serde_json::Value;

/// The rows of a table, whose first cell is a key in code.
fn rows(document: &str) -> Vec<(String, String)> {
    let code = |cell: &str| cell.trim().trim_matches('`').to_string();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        Some((code(cells.next()?), code(cells.next()?)))
    };
    let table = document.split("| key | default | meaning |").nth(1).expect("the table of the keys");
    table.lines().skip(2).take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

#[test]
fn every_key_is_in_the_document_with_its_default() {
    let sandbox = Sandbox::new();
    MailServer::configure(&sandbox, "127.0.0.1:0", "", "");
    let schema = sandbox.fmail().args(["config", "schema", "--json"]).ok().json();
    let path = "/properties/mail/properties/plugin/properties/http/properties/config/properties";
    let keys = schema.pointer(path).and_then(Value::as_object).unwrap_or_else(|| panic!("{schema:#}"));
    let document = std::fs::read_to_string(workspace().join("docs/plugins/http.md")).unwrap();
    let mut told = rows(&document);
    let mut known: Vec<(String, String)> = keys
        .iter()
        .filter(|(name, _)| *name != "runtime")
        .map(|(name, rule)| {
            assert!(rule["description"].is_string(), "{name} says what it is for");
            let default = match &rule["default"] {
                Value::Null => "none".into(),
                Value::Array(empty) if empty.is_empty() => "none".into(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            (name.clone(), default)
        })
        .collect();
    told.sort();
    known.sort();
    assert_eq!(told, known);
}
