//! Servers in TOML: Codex's.
//!
//! Our entry is a table of its own at the end of the file. It is found again as text, and every change is compared with
//! what it means before it counts: whatever the text looks like, nothing else can have changed.

use fmail_api::{Error, Result};
use serde_json::{Map, Value};
use toml::Table;

use super::servers::{Traces, unusable};

/// The table of servers.
const SERVERS: &str = "mcp_servers";

/// A configuration in TOML.
pub(super) struct TomlServers {
    text: String,
    table: Table,
}

/// A table's header and what belongs to it.
struct Section {
    path: Vec<String>,
    /// Where the line of the header begins.
    start: usize,
    /// Behind the last line that says something.
    end: usize,
}

impl TomlServers {
    pub(super) fn parse(text: String) -> Result<TomlServers> {
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| unusable(error.to_string().trim().to_string()))?;
        match table.get(SERVERS) {
            None | Some(toml::Value::Table(_)) => Ok(TomlServers { text, table }),
            Some(other) => Err(unusable(format!("`{SERVERS}` is no table, but of the type {}", other.type_str()))),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        serde_json::to_value(self.table.get(SERVERS)?.get(name)?).ok()
    }

    pub(super) fn with(&self, name: &str, entry: &Map<String, Value>) -> Result<(String, Traces)> {
        let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let before = match &self.text {
            text if text.trim().is_empty() || text.ends_with("\n\n") || text.ends_with("\r\n\r\n") => String::new(),
            text if text.ends_with('\n') => newline.to_string(),
            _ => newline.repeat(2),
        };
        let text = format!("{}{before}{}", self.text, rendered(name, entry).replace('\n', newline));
        let mut expected = self.table.clone();
        let servers = expected.entry(SERVERS).or_insert_with(|| toml::Value::Table(Table::new()));
        let value = toml::Value::try_from(entry).map_err(|error| Error::internal(error.to_string()))?;
        servers.as_table_mut().map(|servers| servers.insert(name.to_string(), value));
        match text.parse::<Table>() {
            Ok(table) if table == expected => Ok((text, Traces { before: Some(before), ..Traces::default() })),
            _ => Err(unusable(format!("its `{SERVERS}` is written so that no table can be added"))
                .help("add what `fmail mcp config codex` prints by hand")),
        }
    }

    pub(super) fn without(&self, name: &str, traces: Option<&Traces>) -> Result<String> {
        let mut text = self.text.clone();
        let ours = |section: &Section| section.path.starts_with(&[SERVERS.to_string(), name.to_string()]);
        for section in sections(&self.text).iter().filter(|section| ours(section)).rev() {
            let above = &self.text[..section.start];
            let made = traces.and_then(|traces| traces.before.as_deref()).filter(|_| section.path.len() == 2);
            let before = match made {
                Some(before) if above.ends_with(before) => before.len(),
                _ if above.ends_with("\r\n\r\n") => 2,
                _ if above.ends_with("\n\n") => 1,
                _ => 0,
            };
            text.replace_range(section.start - before..section.end, "");
        }
        let mut expected = self.table.clone();
        if let Some(toml::Value::Table(servers)) = expected.get_mut(SERVERS) {
            servers.remove(name);
        }
        let same = |table: &Table| {
            let mut without = expected.clone();
            let emptied = without.get(SERVERS).and_then(toml::Value::as_table).is_some_and(Table::is_empty);
            if emptied && !table.contains_key(SERVERS) {
                without.remove(SERVERS);
            }
            *table == without
        };
        match text.parse::<Table>() {
            Ok(table) if same(&table) => Ok(text),
            _ => Err(unusable(format!("the server `{name}` is not written as a table of its own"))
                .help("take it out by hand")),
        }
    }
}

/// The table as text.
fn rendered(name: &str, entry: &Map<String, Value>) -> String {
    let mut text = format!("[{SERVERS}.{name}]\n");
    for (key, value) in entry {
        // Of what we write, strings and lists of strings, JSON's form is TOML's too.
        text.push_str(&format!("{key} = {}\n", value.to_string().replace("\",\"", "\", \"")));
    }
    text
}

/// The tables of a text that is known to be TOML.
fn sections(text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    for (start, end) in statements(text) {
        let statement = text[start..end].trim_start();
        if statement.starts_with('[') {
            found.push(Section { path: path(statement), start, end });
        } else if let Some(section) = found.last_mut() {
            section.end = end;
        }
    }
    found
}

/// The keys of a header.
fn path(header: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut inside = header.parse::<Table>().ok();
    while let Some((key, value)) = inside.take().and_then(|table| table.into_iter().next()) {
        keys.push(key);
        inside = match value {
            toml::Value::Table(table) => Some(table),
            toml::Value::Array(tables) => tables.into_iter().next().and_then(|first| first.try_into().ok()),
            _ => None,
        };
    }
    keys
}

/// Where the headers and assignments stand, each with its line's end. Blank lines and comments belong to none.
fn statements(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut start) = (0, 0);
    let (mut depth, mut says) = (0usize, false);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at = line_end(bytes, at),
            quote @ (b'"' | b'\'') => {
                says = true;
                at = string_end(bytes, at, quote);
            }
            b'\n' if depth == 0 => {
                at += 1;
                if std::mem::take(&mut says) {
                    found.push((start, at));
                }
                start = at;
            }
            byte => {
                says |= !byte.is_ascii_whitespace();
                match byte {
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                at += 1;
            }
        }
    }
    if says {
        found.push((start, bytes.len()));
    }
    found
}

/// The end of the line, before its break.
fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |line| at + line)
}

/// Behind a string that begins here: of one line or of several, with escapes or without.
fn string_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 2,
            byte if byte == quote && !long => return at + 1,
            byte if byte == quote && bytes[at..].starts_with(&[quote; 3]) => {
                // Up to two quotation marks may stand before the three that end it.
                let run = bytes[at..].iter().take_while(|byte| **byte == quote).count();
                return at + run.min(5);
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry() -> Map<String, Value> {
        json!({"command": "fmail", "args": ["mcp", "serve"]}).as_object().unwrap().clone()
    }

    /// Added and taken away, the text is what it was; added, it says one thing more.
    #[track_caller]
    fn check(text: &str) -> String {
        let servers = TomlServers::parse(text.to_string()).unwrap();
        let (with, traces) = servers.with("fmail", &entry()).unwrap();
        assert!(with.starts_with(text), "{with}");
        let added = TomlServers::parse(with.clone()).unwrap();
        assert_eq!(added.get("fmail"), Some(Value::Object(entry())));
        assert_eq!(added.without("fmail", Some(&traces)).unwrap(), text);
        let unknown = added.without("fmail", None).unwrap();
        assert_eq!(unknown.parse::<Table>().unwrap(), text.parse::<Table>().unwrap());
        with
    }

    #[test]
    fn a_table_comes_and_goes_and_the_rest_stays_to_the_byte() {
        for text in [
            "",
            "\n",
            "# mine\n",
            "model = \"x\"",
            "model = \"x\"\n",
            "model = \"x\"\n\n",
            "a = 1\r\n[b]\r\nc = [\r\n  1, # ]\r\n]\r\n",
            "s = \"\"\"\n[mcp_servers.fmail]\n\"\"\"\n",
            "s = '''a''''\n[x]\ny = \"\\\"[\"\n",
            "[mcp_servers.other]\ncommand = \"x\"\n[projects.\"/a\"]\ntrust_level = \"trusted\"\n",
            "[[list]]\na = { b = [1, 2] }\n[[list]]\n",
            "[mcp_servers]\n",
        ] {
            check(text);
        }
        assert_eq!(
            check("a = 1\n"),
            "a = 1\n\n[mcp_servers.fmail]\ncommand = \"fmail\"\nargs = [\"mcp\", \"serve\"]\n"
        );
    }

    #[test]
    fn what_came_behind_it_or_into_it_is_told_apart() {
        let with = check("a = 1\n");
        let later = format!(
            "{with}startup_timeout_sec = 20\n\n# a project\n[projects.\"/p\"]\nt = 1\n\n[mcp_servers.fmail.tools.x]\nmode = \"approve\"\n\n[mcp_servers.fmail2]\ncommand = \"y\"\n"
        );
        let servers = TomlServers::parse(later).unwrap();
        let left = servers.without("fmail", Some(&Traces { before: Some("\n".into()), ..Traces::default() })).unwrap();
        assert_eq!(left, "a = 1\n\n# a project\n[projects.\"/p\"]\nt = 1\n\n[mcp_servers.fmail2]\ncommand = \"y\"\n");
    }

    #[test]
    fn other_forms_of_a_table_are_read_and_left_to_the_user() {
        for text in ["mcp_servers = { fmail = { command = \"x\" } }\n", "mcp_servers.fmail.command = \"x\"\n"] {
            let servers = TomlServers::parse(text.into()).unwrap();
            assert_eq!(servers.get("fmail"), Some(json!({"command": "x"})));
            assert!(servers.without("fmail", None).unwrap_err().help_text().unwrap().contains("by hand"));
        }
        let quoted = TomlServers::parse("[\"mcp_servers\" . 'fmail'] # ours\ncommand = \"x\"\n".into()).unwrap();
        assert_eq!(quoted.without("fmail", None).unwrap(), "");
        let inline = TomlServers::parse("mcp_servers = { a = { command = \"x\" } }\n".into()).unwrap();
        assert!(inline.with("fmail", &entry()).is_err());
        assert!(TomlServers::parse("mcp_servers = 1\n".into()).is_err());
        assert!(TomlServers::parse("a = \n".into()).is_err());
    }
}
