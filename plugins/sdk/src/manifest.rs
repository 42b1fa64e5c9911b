//! What a plugin says about itself before any of its code has run: made by the compiler, because the host reads it from
//! the library's data.

use crate::schema::Splice;

/// What kind of plugin it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A [`Store`](crate::Store).
    Store,
    /// A [`Log`](crate::Log), of which the host makes a store.
    Log,
    /// A [`Transport`](crate::Transport).
    Transport,
    /// A [`Relay`](crate::Relay).
    Relay,
}

/// What a plugin says about itself. The macros make one from their fields.
#[derive(Debug, Clone, Copy)]
pub struct Manifest {
    /// By which the configuration chooses it: a letter, then letters, digits and hyphens, at most 32; lower case.
    pub name: &'static str,
    /// The plugin's own version.
    pub version: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it can do beyond what every plugin of its kind can.
    pub capabilities: &'static [&'static str],
    /// The largest message that it takes, in bytes of compact JSON; 0 means that it names no limit.
    pub max_message_bytes: usize,
    /// The schema of its section in the configuration: a JSON object, in the subset of JSON Schema that
    /// docs/plugins/abi.md describes. The host checks the section before the plugin is created. The SDK adds its own key,
    /// `runtime`.
    pub config_schema: &'static str,
}

/// Every capability that a store may claim.
const STORE_CAPABILITIES: &[&str] = &[
    "shared",
    "durable",
    "import",
    "remove",
    "direct-only",
    "summary",
    "filter.scope",
    "filter.ids",
    "filter.from",
    "filter.thread",
    "filter.time",
    "filter.limit",
    "filter.order",
    "filter.text",
    "mailbox",
];

/// A log is only asked whether others see it and whether it survives.
const LOG_CAPABILITIES: &[&str] = &["shared", "durable"];

impl Manifest {
    /// A manifest without a name, which claims nothing.
    pub const fn new(kind: Kind, version: &'static str) -> Self {
        let config_schema = r#"{"type":"object","properties":{}}"#;
        Manifest { name: "", version, kind, capabilities: &[], max_message_bytes: 0, config_schema }
    }

    /// Whether it claims this.
    pub fn claims(&self, capability: &str) -> bool {
        self.capabilities.contains(&capability)
    }

    /// How many bytes [`Manifest::text`] has.
    pub const fn size(&self) -> usize {
        self.write::<0>().length
    }

    /// The JSON, ended by a zero byte. `N` is [`Manifest::size`]. Fails to compile when something in it is wrong.
    pub const fn text<const N: usize>(&self) -> [u8; N] {
        self.check();
        let written = self.write::<N>();
        assert!(written.length == N);
        written.bytes
    }

    const fn write<const N: usize>(&self) -> Text<N> {
        let mut text = Text { bytes: [0; N], length: 0 };
        text.string("{\"name\":", self.name);
        text.string(",\"version\":", self.version);
        let (kind, profile) = match self.kind {
            Kind::Store => ("store", "store"),
            Kind::Log => ("store", "log"),
            Kind::Transport => ("transport", ""),
            Kind::Relay => ("relay", ""),
        };
        text.string(",\"kind\":", kind);
        if !profile.is_empty() {
            text.string(",\"profile\":", profile);
        }
        text.raw(",\"capabilities\":[");
        let mut at = 0;
        while at < self.capabilities.len() {
            text.string(if at == 0 { "" } else { "," }, self.capabilities[at]);
            at += 1;
        }
        text.raw("],\"limits\":{");
        if self.max_message_bytes > 0 {
            text.raw("\"max_message_bytes\":");
            text.number(self.max_message_bytes);
        }
        text.raw("},\"config_schema\":");
        let splice = Splice::find(self.config_schema);
        let (head, tail) = self.config_schema.split_at(splice.at);
        text.raw(head);
        text.raw(splice.before);
        text.raw(splice.key());
        text.raw(splice.after);
        text.raw(tail);
        text.string(",\"build\":{\"sdk\":", concat!("fmail-plugin ", env!("CARGO_PKG_VERSION")));
        text.string(",\"rustc\":", env!("FMAIL_PLUGIN_RUSTC"));
        text.string(",\"target\":", env!("FMAIL_PLUGIN_TARGET"));
        text.raw("}}\0");
        text
    }

    /// Refuses what the host would refuse, as early as can be.
    const fn check(&self) {
        let name = self.name.as_bytes();
        assert!(!name.is_empty() && name.len() <= 32, "the name of a plugin has 1 to 32 characters");
        assert!(name[0].is_ascii_lowercase(), "the name of a plugin begins with a letter a to z");
        let mut at = 0;
        while at < name.len() {
            let fits = name[at].is_ascii_lowercase() || name[at].is_ascii_digit() || name[at] == b'-';
            assert!(fits, "the name of a plugin has only a to z, 0 to 9 and hyphens");
            at += 1;
        }
        let known = match self.kind {
            Kind::Store => STORE_CAPABILITIES,
            Kind::Log => LOG_CAPABILITIES,
            Kind::Transport | Kind::Relay => &[],
        };
        let mut at = 0;
        while at < self.capabilities.len() {
            assert!(
                among(self.capabilities[at], known),
                "an unknown capability; stores have shared, durable, import, remove, direct-only, summary and filter.scope, .ids, \
                 .from, .thread, .time, .limit, .order, .text; logs have shared and durable; others have none"
            );
            at += 1;
        }
    }
}

const fn among(text: &str, list: &[&str]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if equal(text.as_bytes(), list[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

/// Text that is written by the compiler. Beyond `N` it is only counted.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    const fn byte(&mut self, byte: u8) {
        if self.length < N {
            self.bytes[self.length] = byte;
        }
        self.length += 1;
    }

    const fn raw(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    /// A JSON string behind what precedes it.
    const fn string(&mut self, before: &str, text: &str) {
        self.raw(before);
        self.byte(b'"');
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(
                bytes[at] != b'"' && bytes[at] != b'\\' && bytes[at] >= 0x20,
                "a text of the manifest needs no escapes"
            );
            self.byte(bytes[at]);
            at += 1;
        }
        self.byte(b'"');
    }

    const fn number(&mut self, number: usize) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_json_and_ended_by_a_zero_byte() {
        const MANIFEST: Manifest = Manifest {
            name: "my-store",
            capabilities: &["shared", "filter.scope"],
            max_message_bytes: 1_048_576,
            config_schema: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#,
            ..Manifest::new(Kind::Store, "1.2.3")
        };
        static TEXT: [u8; MANIFEST.size()] = MANIFEST.text();
        let text = std::ffi::CStr::from_bytes_with_nul(&TEXT).unwrap().to_str().unwrap();
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(json["name"], "my-store");
        assert_eq!(json["version"], "1.2.3");
        assert_eq!((&json["kind"], &json["profile"]), (&"store".into(), &"store".into()));
        assert_eq!(json["capabilities"], serde_json::json!(["shared", "filter.scope"]));
        assert_eq!(json["limits"]["max_message_bytes"], 1_048_576);
        assert_eq!(json["config_schema"]["properties"]["path"]["type"], "string");
        assert_eq!(json["config_schema"]["properties"]["runtime"]["properties"]["threads"]["minimum"], 1);
        assert!(json["build"]["rustc"].as_str().unwrap().starts_with("rustc "), "{json}");
        assert!(json["build"]["target"].as_str().unwrap().contains('-'), "{json}");
    }

    /// What the compiler says about this manifest: the same code runs here.
    fn refusal(manifest: Manifest) -> Option<String> {
        let checked = std::panic::catch_unwind(|| {
            manifest.check();
            manifest.size()
        });
        checked.err().map(|panic| panic.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).to_owned()))
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_the_reason() {
        let good = Manifest { name: "notes-2", ..Manifest::new(Kind::Log, "1.0.0") };
        assert_eq!(refusal(good), None);
        for (wrong, reason) in [
            (Manifest { name: "", ..good }, "1 to 32 characters"),
            (Manifest { name: "abcdefghijklmnopqrstuvwxyz1234567", ..good }, "1 to 32 characters"),
            (Manifest { name: "2notes", ..good }, "begins with a letter"),
            (Manifest { name: "my_notes", ..good }, "only a to z, 0 to 9 and hyphens"),
            (Manifest { capabilities: &["shared", "fast"], ..good }, "an unknown capability"),
            (Manifest { capabilities: &["filter.scope"], ..good }, "an unknown capability"),
            (Manifest { kind: Kind::Relay, capabilities: &["shared"], ..good }, "an unknown capability"),
            (Manifest { config_schema: "[]", ..good }, "config_schema is a JSON object"),
            (Manifest { config_schema: "{\"type\":\"object\"", ..good }, "config_schema is a JSON object"),
            (Manifest { version: "1.0 \"beta\"", ..good }, "needs no escapes"),
        ] {
            let said = refusal(wrong).unwrap_or_else(|| panic!("{wrong:?} was taken"));
            assert!(said.contains(reason), "{wrong:?}: {said}");
        }
    }
}
