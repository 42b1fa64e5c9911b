//! docs/plugins/contract.md has the rules word for word as the sources have them. `FMAIL_CONFORMANCE_WRITE=1` writes them.

use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rules in the documentation of a trait: its headings, and the items that begin with a number in bold.
fn of_trait(source: &str) -> String {
    let mut text = String::new();
    let mut in_rule = false;
    for line in source.lines() {
        let Some(line) = line.strip_prefix("///") else { continue };
        let line = line.strip_prefix(' ').unwrap_or(line);
        if let Some(heading) = line.strip_prefix("# ") {
            text += &format!("\n### {heading}\n\n");
            in_rule = false;
        } else if line.starts_with("- **") {
            text += &format!("{line}\n");
            in_rule = true;
        } else if in_rule && line.starts_with("  ") {
            text += &format!("{line}\n");
        } else {
            in_rule = false;
        }
    }
    text.trim().to_string()
}

/// The rules at the top of the header, as items.
fn of_header(source: &str) -> String {
    let start = source.find("Rules that hold everywhere").expect("the header has rules");
    let end = start + source[start..].find("*/").expect("the comment ends");
    let mut rules: Vec<String> = Vec::new();
    for line in source[start..end].lines().skip(1) {
        let words = line.trim_start().trim_start_matches('*').trim();
        match words.split_once(' ') {
            Some((number, rest)) if number.parse::<u32>().is_ok() && line.starts_with(" *   ") => {
                let (name, rest) = rest.trim().split_once(". ").expect("a rule has a name");
                rules.push(format!("- **{number}** {name}. {}", rest.trim()));
            }
            _ if !words.is_empty() => {
                let last = rules.last_mut().expect("a rule begins with its number");
                *last += &format!(" {words}");
            }
            _ => {}
        }
    }
    rules.join("\n")
}

#[test]
fn the_contract_has_the_rules_as_the_sources_have_them() {
    let read =
        |path: &str| fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let parts = [
        ("boundary", of_header(&read("plugins/sdk/include/fmail_plugin.h"))),
        ("log", of_trait(&read("fmail-api/src/log.rs"))),
        ("store", of_trait(&read("fmail-api/src/store.rs"))),
        ("mailbox", of_trait(&read("fmail-api/src/mailbox.rs"))),
        ("transport", of_trait(&read("fmail-api/src/transport.rs"))),
        ("relay", of_trait(&read("fmail-api/src/relay.rs"))),
    ];
    let document = read("docs/plugins/contract.md");
    let mut wanted = document.clone();
    for (name, rules) in &parts {
        assert!(rules.matches("- **").count() >= 5, "the rules of {name} were not found: {rules}");
        let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
        let from = wanted.find(&begin).unwrap_or_else(|| panic!("there is no {begin}")) + begin.len();
        let to = wanted.find(&end).unwrap_or_else(|| panic!("there is no {end}"));
        wanted.replace_range(from..to, &format!("{rules}\n"));
    }
    if std::env::var_os("FMAIL_CONFORMANCE_WRITE").is_some() {
        fs::write(workspace().join("docs/plugins/contract.md"), &wanted).unwrap();
        return;
    }
    assert!(
        document == wanted,
        "docs/plugins/contract.md is not what the sources say; FMAIL_CONFORMANCE_WRITE=1 cargo test -p fmail-conformance \
         --test contract_document writes it"
    );
}
