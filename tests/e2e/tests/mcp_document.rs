//! The examples of docs/mcp.md do what the document says.

use std::fs;
use std::path::Path;

use fmail_e2e::Output;
use fmail_e2e::mcp::MailServer;

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md")).expect("docs/mcp.md")
}

fn blocks(language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    document().split(&start).skip(1).filter_map(|rest| rest.split("```").next()).map(String::from).collect()
}

#[test]
fn the_examples_run_and_do_what_the_document_says() {
    // The daemon has the document's configuration, on a port of its own.
    assert!(blocks("toml")[0].contains("transports = [\"unix\", \"http\"]"));
    let server = MailServer::start();
    let url = format!("http://{}", server.address);
    let file = server.sandbox.path().join(".mcp.json");
    let mut written = String::new();
    let mut outputs: Vec<Output> = Vec::new();
    for (number, block) in blocks("bash").iter().enumerate() {
        let command = server.sandbox.bash("bob", block);
        // The entries stand in the document with the default address; the shell needs the real one.
        let command = if number == 4 { command.env("AGENT_MAIL_BASE_URL", &url) } else { command };
        outputs.push(command.ok());
        if number == 0 {
            written = fs::read_to_string(&file).expect("it is installed");
        }
    }
    let [installed, removed, all, named, shell] = &outputs[..] else { panic!("{} blocks", outputs.len()) };
    assert!(installed.stdout.contains("claude project: installed, started by the agent"), "{installed}");
    assert_eq!(written, blocks("json")[0]);
    assert!(removed.stdout.contains("claude project: not installed"), "{removed}");
    for agent in ["claude", "codex", "gemini"] {
        let line = format!("{agent} project: installed, at http://127.0.0.1:8765/mcp/");
        assert!(all.stdout.contains(&line), "{all}");
    }
    assert!(named.stdout.contains("\"Authorization\": \"Bearer ${AGENT_MAIL_BEARER_TOKEN}\""), "{named}");
    assert!(named.stdout.contains("bearer_token_env_var = \"AGENT_MAIL_BEARER_TOKEN\""), "{named}");
    assert!(!named.stdout.contains("correct-horse"), "{named}");
    let lines: Vec<&str> = shell.stdout.lines().collect();
    assert!(lines[0].starts_with("TOOL ") && lines.len() == 5, "{shell}");
    assert_eq!(lines[3..], ["1", "Review"], "{shell}");
}
