//! `fmail mcp config|install|uninstall|status`: our server in the configuration of agents, and everything else as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Fmail, Output, Sandbox};
use serde_json::{Value, json};

const TOKEN: &str = "s3cret-t0ken-0042";

/// Each agent with the file of a project, and that of a user below the home.
const AGENTS: [(&str, &str, &str); 3] = [
    ("claude", ".mcp.json", ".claude.json"),
    ("codex", ".codex/config.toml", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json", ".gemini/settings.json"),
];

fn mcp(sandbox: &Sandbox, args: &[&str]) -> Fmail {
    sandbox.fmail().arg("mcp").args(args)
}

fn ok(sandbox: &Sandbox, args: &[&str]) -> Output {
    mcp(sandbox, args).ok()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The servers of an agent's file, read by somebody who knows only the agent's own format.
fn servers(agent: &str, text: &str) -> Value {
    if agent != "codex" {
        let text = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let settings: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        return settings["mcpServers"].clone();
    }
    let settings: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    serde_json::to_value(settings.get("mcp_servers")).unwrap()
}

#[test]
fn the_server_is_that_of_the_configuration_unless_another_is_named() {
    let sandbox = Sandbox::new();
    let key = "correct-horse-battery-staple-0042";
    let write = |lines: &str| MailServer::configure(&sandbox, "127.0.0.1:9123", "", lines);
    write(&format!("path = \"/mail/\"\ntoken = {key:?}"));
    let header = json!({"Authorization": "Bearer ${AGENT_MAIL_BEARER_TOKEN}"});
    let url = "http://127.0.0.1:9123/mail/";
    let output = ok(&sandbox, &["config", "claude", "--http"]);
    assert_eq!(servers("claude", &output.stdout)["fmail"], json!({"type": "http", "url": url, "headers": header}));
    output.says(&["AGENT_MAIL_BEARER_TOKEN", "not set now"]);
    assert!(!output.stdout.contains(key) && !output.stderr.contains(key), "a secret is written nowhere: {output}");
    let codex = ok(&sandbox, &["config", "codex", "--http", "--json"]).json();
    assert_eq!(codex["fmail"], json!({"url": url, "bearer_token_env_var": "AGENT_MAIL_BEARER_TOKEN"}));
    ok(&sandbox, &["install", "gemini", "--http"]);
    let text = read(&sandbox.path().join(".gemini/settings.json"));
    assert_eq!(servers("gemini", &text)["fmail"], json!({"httpUrl": url, "headers": header}));
    // Another server has nothing to do with what ours is configured to be.
    let named =
        mcp(&sandbox, &["config", "claude", "--http", "--json"]).env("AGENT_MAIL_BASE_URL", "https://a.example");
    assert_eq!(named.ok().json()["fmail"], json!({"type": "http", "url": "https://a.example/mcp/"}));
    let named = ok(&sandbox, &["config", "claude", "--http", "--json", "--url", "https://b.example"]);
    assert_eq!(named.json()["fmail"], json!({"type": "http", "url": "https://b.example/mcp/"}));
    MailServer::configure(&sandbox, "0.0.0.0:9123", "", "token_file = \"~/token\"");
    let everywhere = ok(&sandbox, &["config", "claude", "--http", "--json"]).json();
    assert_eq!(everywhere["fmail"]["url"], "http://127.0.0.1:9123/mcp/");
    assert_eq!(everywhere["fmail"]["headers"], header);
}

#[test]
fn the_entry_is_printed_in_each_agents_own_form() {
    let sandbox = Sandbox::new();
    let command = json!(["mcp", "serve", "--stdio"]);
    let check = |agent: &str, args: &[&str], expect: Value| {
        let run = |more: &[&str]| mcp(&sandbox, &["config", agent]).args(args).args(more).env("MAIL_KEY", TOKEN).ok();
        assert_eq!(servers(agent, &run(&[]).stdout)["fmail"], expect, "{agent} {args:?}");
        assert_eq!(run(&["--json"]).json()["fmail"], expect, "{agent} {args:?}");
    };
    let passed_on = json!(["FMAIL_ROOT", "FMAIL_PROJECT", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"]);
    for args in [&[][..], &["--stdio"]] {
        check("claude", args, json!({"type": "stdio", "command": "fmail", "args": command}));
        check("codex", args, json!({"command": "fmail", "args": command, "env_vars": passed_on}));
        check("gemini", args, json!({"command": "fmail", "args": command}));
    }
    let url = "http://127.0.0.1:8765/mcp/";
    check("claude", &["--http"], json!({"type": "http", "url": url}));
    check("codex", &["--http"], json!({"url": url}));
    check("gemini", &["--http"], json!({"httpUrl": url}));
    let header = json!({"Authorization": "Bearer ${MAIL_KEY}"});
    let args = ["--http", "--url", "https://mail.example", "--path", "api", "--token-env", "MAIL_KEY"];
    let url = "https://mail.example/api/";
    check("claude", &args, json!({"type": "http", "url": url, "headers": header}));
    check("codex", &args, json!({"url": url, "bearer_token_env_var": "MAIL_KEY"}));
    check("gemini", &args, json!({"httpUrl": url, "headers": header}));
    assert!(!sandbox.path().join(".mcp.json").exists(), "printing writes nothing");
}

#[test]
fn a_token_is_named_and_never_written() {
    let sandbox = Sandbox::new();
    for (agent, project, _) in AGENTS {
        let run = |args: &[&str]| mcp(&sandbox, args).env("AGENT_MAIL_BEARER_TOKEN", TOKEN).ok();
        for output in [run(&["config", agent, "--http"]), run(&["install", agent, "--http"])] {
            assert!(!output.stdout.contains(TOKEN) && !output.stderr.contains(TOKEN), "{output}");
        }
        let text = read(&sandbox.path().join(project));
        assert!(!text.contains(TOKEN) && text.contains("AGENT_MAIL_BEARER_TOKEN"), "{text}");
    }
    let given = mcp(&sandbox, &["install", "claude", "--http", "--token-env", TOKEN]).fails(2);
    assert!(!given.stderr.contains(TOKEN), "a token in the wrong place is not repeated: {given}");
    let file = sandbox.write("token", TOKEN);
    mcp(&sandbox, &["config", "claude", "--http", "--token-file"]).arg(file).fails(2).says(&["--token-env"]);
}

#[test]
fn a_file_that_was_not_there_is_made_and_taken_away() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "@bob", "the project is here");
    let before = (sandbox.tree(), fmail_e2e::tree(&sandbox.home()));
    assert_eq!(mcp(&sandbox, &["status"]).run().code, 1);
    for (agent, project, user) in AGENTS {
        for (scope, path) in [("--project", sandbox.path().join(project)), ("--user", sandbox.home().join(user))] {
            ok(&sandbox, &["install", agent, scope]).says(&["installed in", path.to_str().unwrap()]);
            let text = read(&path);
            assert_eq!(servers(agent, &text)["fmail"]["command"], "fmail");
            let inode = path.metadata().unwrap().ino();
            ok(&sandbox, &["install", agent, scope]).says(&["already installed"]);
            assert_eq!((read(&path), path.metadata().unwrap().ino()), (text, inode), "the second time changes nothing");
            let word = scope.trim_start_matches("--");
            let status = ok(&sandbox, &["status", agent]).stdout;
            assert!(status.contains(&format!("{agent} {word}: installed, started by the agent")), "{status}");
            ok(&sandbox, &["uninstall", agent, scope]).says(&["removed from"]);
            ok(&sandbox, &["uninstall", agent, scope]).says(&["not installed in"]);
            assert!(!path.exists());
        }
    }
    sandbox.assert_unchanged(&before.0);
    // What was noted for the removal is gone too; the directory of the notes stays.
    let mut after = fmail_e2e::tree(&sandbox.home());
    after.retain(|path, _| !path.starts_with(".local"));
    fmail_e2e::assert_same(&before.1, &after);
    assert_eq!(mcp(&sandbox, &["status"]).run().code, 1);
}

/// Configurations as somebody may have written them.
fn written(agent: &str) -> Vec<String> {
    if agent == "codex" {
        let text = "model = \"o\"   # mine\n\n[mcp_servers.other]\ncommand = \"x\"\nargs = [\n  \"[mcp_servers.fmail]\",\n]\n\n[projects.\"/a b\"]\ntrust_level = \"trusted\"";
        return [text, &format!("{text}\n"), &text.replace('\n', "\r\n"), "", "\n\n", "# nothing\n", "[mcp_servers]\n"]
            .map(String::from)
            .into();
    }
    let text = "{\n\t\"model\" : \"opus\",\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\",   \"args\": [\"}\"]}\n\t},\n\t\"unknown\": [1.50, 1e3, null]\n}";
    [
        text,
        &text.replace('\n', "\r\n"),
        "{}",
        "{\n}\n",
        " {\"mcpServers\":{}}",
        "{\"a\":1}\n",
        "{\"mcpServers\": { }, \"b\": 2}",
    ]
    .map(String::from)
    .into()
}

#[test]
fn a_users_servers_and_settings_survive_to_the_byte() {
    for (agent, file, _) in AGENTS {
        for text in written(agent) {
            let sandbox = Sandbox::new();
            let path = sandbox.write(file, &text);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            ok(&sandbox, &["install", agent]);
            let first = read(&path);
            assert_eq!(servers(agent, &first)["fmail"]["command"], "fmail", "{first}");
            assert_eq!(servers(agent, &first)["other"], servers(agent, &text)["other"], "{first}");
            // Another way to the same server replaces the entry, and still leads back to the beginning.
            ok(&sandbox, &["install", agent, "--http", "--url", "http://127.0.0.1:1"]);
            let second = read(&path);
            let entry = &servers(agent, &second)["fmail"];
            assert!(entry["command"].is_null() && entry.to_string().contains("http://127.0.0.1:1/mcp/"), "{second}");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
            ok(&sandbox, &["uninstall", agent]);
            assert_eq!(read(&path), text, "{agent}: {first}");
        }
    }
}

#[test]
fn what_was_changed_in_between_stays_and_exactly_our_entry_goes() {
    let sandbox = Sandbox::new();
    ok(&sandbox, &["install", "claude"]);
    let path = sandbox.path().join(".mcp.json");
    let mut settings: Value = serde_json::from_str(&read(&path)).unwrap();
    settings["mcpServers"]["later"] = json!({"command": "y"});
    settings["mcpServers"]["fmail"]["env"] = json!({"FMAIL_AGENT": "bob"});
    fs::write(&path, settings.to_string()).unwrap();
    ok(&sandbox, &["install", "claude"]).says(&["already installed"]);
    mcp(&sandbox, &["install", "claude", "--http"]).fails(8).says(&["env", "would be lost", "nothing was changed"]);
    ok(&sandbox, &["uninstall", "claude"]);
    assert_eq!(
        serde_json::from_str::<Value>(&read(&path)).unwrap(),
        json!({"mcpServers": {"later": {"command": "y"}}})
    );

    // Codex notes what its user has approved below our table.
    ok(&sandbox, &["install", "codex"]);
    let path = sandbox.path().join(".codex/config.toml");
    let more = "\n[mcp_servers.fmail.tools.send_message]\napproval_mode = \"approve\"\n\n[tui]\ntheme = \"x\"\n";
    fs::write(&path, read(&path) + more).unwrap();
    ok(&sandbox, &["uninstall", "codex"]);
    assert_eq!(read(&path), "\n[tui]\ntheme = \"x\"\n");

    // A clone has no note of what was made.
    let clone = Sandbox::new();
    clone.write(
        ".mcp.json",
        "{\"mcpServers\": {\"fmail\": {\"type\": \"http\", \"url\": \"http://h/mcp/\"}, \"b\": {}}}\n",
    );
    ok(&clone, &["uninstall", "claude"]);
    assert_eq!(read(&clone.path().join(".mcp.json")), "{\"mcpServers\": {\"b\": {}}}\n");
}

#[test]
fn somebody_elses_server_of_that_name_is_left_alone() {
    for (agent, file, text) in [
        ("claude", ".mcp.json", "{\"mcpServers\": {\"fmail\": {\"command\": \"/opt/fmail-bridge\"}}}"),
        ("gemini", ".gemini/settings.json", "{\"mcpServers\": {\"fmail\": {\"url\": \"http://x/sse\"}}}"),
        ("codex", ".codex/config.toml", "[mcp_servers.fmail]\nurl = \"http://x\"\nenabled = false\n"),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.write(file, text);
        mcp(&sandbox, &["install", agent]).fails(8).says(&["not ours", "--name"]);
        ok(&sandbox, &["uninstall", agent]).says(&["not installed"]);
        assert_eq!(read(&path), text);
        ok(&sandbox, &["install", agent, "--name", "mcp-agent-mail"]);
        let both = servers(agent, &read(&path));
        assert!(both["fmail"].is_object() && both["mcp-agent-mail"]["command"] == "fmail", "{both}");
        ok(&sandbox, &["uninstall", agent, "--name", "mcp-agent-mail"]);
        assert_eq!(read(&path), text);
    }
    let sandbox = Sandbox::new();
    for name in ["", "a b", "a.b", "ä", &"x".repeat(65)] {
        mcp(&sandbox, &["config", "claude", "--name", name]).fails(2).says(&["letters, digits"]);
    }
}

#[test]
fn what_cannot_be_understood_or_replaced_is_refused_and_left() {
    for (agent, file, text, says) in [
        ("claude", ".mcp.json", "{\"mcpServers\": ", "cannot be used"),
        ("claude", ".mcp.json", "[]", "an array, not an object"),
        ("claude", ".mcp.json", "{\"mcpServers\": []}", "`mcpServers` is an array"),
        ("claude", ".mcp.json", "{\"mcpServers\": {}, \"mcpServers\": {}}", "more than once"),
        ("claude", ".mcp.json", "{\"mcpServers\": {\"a\": {}, \"a\": {}}}", "more than once"),
        ("claude", ".mcp.json", "{} // a comment", "comments"),
        ("codex", ".codex/config.toml", "model = \n", "cannot be used"),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n", "is no table"),
        ("codex", ".codex/config.toml", "mcp_servers = { a = { command = \"x\" } }\n", "by hand"),
        ("gemini", ".gemini/settings.json", "{\"mcpServers\": 1}", "a number"),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.write(file, text);
        mcp(&sandbox, &["install", agent]).fails(14).says(&[file, says, "nothing was changed"]);
        assert_eq!(read(&path), text);
    }
    let sandbox = Sandbox::new();
    let path = sandbox.write(".mcp.json", "{}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    mcp(&sandbox, &["install", "claude"]).fails(14).says(&["write-protected"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::hard_link(&path, sandbox.path().join("twin")).unwrap();
    mcp(&sandbox, &["install", "claude"]).fails(14).says(&["hard links"]);
    fs::remove_file(sandbox.path().join("twin")).unwrap();
    let elsewhere = sandbox.outside().join("real.json");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    ok(&sandbox, &["install", "claude"]);
    assert!(path.is_symlink() && read(&elsewhere).contains("fmail"), "a link is written through");
    ok(&sandbox, &["uninstall", "claude"]);
    assert_eq!(read(&elsewhere), "{}");
}

#[test]
fn comments_survive_where_the_agent_allows_them() {
    let sandbox = Sandbox::new();
    let text = "{\n  // servers\n  \"mcpServers\": {\n    // none yet\n  }\n}\n";
    let path = sandbox.write(".gemini/settings.json", text);
    ok(&sandbox, &["install", "gemini"]);
    assert!(read(&path).contains("// none yet") && read(&path).contains("\"fmail\""));
    ok(&sandbox, &["uninstall", "gemini"]);
    assert_eq!(read(&path), text);
}

#[test]
fn moved_directories_dry_runs_and_what_is_said() {
    let sandbox = Sandbox::new();
    let moved: [(&str, &str, &str, PathBuf); 3] = [
        ("claude", "CLAUDE_CONFIG_DIR", "c", sandbox.home().join("c/.claude.json")),
        ("codex", "CODEX_HOME", "x", sandbox.home().join("x/config.toml")),
        ("gemini", "GEMINI_CLI_HOME", "g", sandbox.home().join("g/.gemini/settings.json")),
    ];
    for (agent, variable, directory, file) in moved {
        let directory = sandbox.home().join(directory);
        let run = |args: &[&str]| mcp(&sandbox, args).env(variable, &directory);
        let shown = run(&["install", agent, "--user", "--dry-run"]).ok();
        assert!(shown.stdout.contains("fmail") && !file.exists(), "{shown}");
        run(&["install", agent, "--user"]).ok();
        assert_eq!(read(&file).trim_end(), shown.stdout.trim_end());
        let status = run(&["status", agent, "--json"]).ok().json_lines();
        assert_eq!((&status[1]["installed"], &status[1]["scope"]), (&json!(true), &json!("user")));
        run(&["uninstall", agent, "--user"]).ok();
        assert!(!directory.exists(), "the directories that were made go too");
    }
    let done = ok(&sandbox, &["install", "codex", "--http", "--json"]).json();
    assert_eq!((&done["changed"], &done["server"]), (&json!(true), &json!({"url": "http://127.0.0.1:8765/mcp/"})));
    ok(&sandbox, &["install", "claude", "--http", "--token-env", "T"]).says(&["forged", "start the agent with T"]);
    ok(&sandbox, &["install", "codex"]).says(&["trust"]);
    mcp(&sandbox, &["install", "gemini"]).env("PATH", "/nowhere").ok().says(&["no `fmail` on the PATH"]);
    for wrong in [
        &["install", "claude", "--stdio", "--http"][..],
        &["install", "claude", "--url", "http://x"],
        &["install", "cursor"],
    ] {
        mcp(&sandbox, wrong).fails(2);
    }
}
