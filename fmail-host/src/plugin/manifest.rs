//! What a plugin says about itself, before it is asked to do anything.

use std::collections::BTreeSet;

use fmail_api::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::json::{shown, word_for};
use super::{PluginName, Schema};
use crate::near::suggestion;
use crate::registry::PluginKind;
use crate::{Origin, PluginSettings};

/// A manifest, checked: a static text in a library, the answer to `hello` of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The plugin's own name.
    pub name: PluginName,
    /// Its version, as it likes to write it.
    pub version: String,
    /// What it is.
    pub kind: PluginKind,
    /// How much of a store it is; [`StoreProfile::Store`] for all others.
    pub profile: StoreProfile,
    /// What it can do beyond what each of its kind can.
    pub capabilities: BTreeSet<Capability>,
    /// The largest message that it takes, in bytes.
    pub max_message_bytes: Option<usize>,
    /// What its own section of the configuration may hold.
    pub config_schema: Schema,
    /// How it was built: whatever the plugin tells.
    pub build: Map<String, Value>,
}

/// How much of a store a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreProfile {
    /// The whole contract.
    Store,
    /// An append-only log; the host makes a store of it.
    Log,
}

macro_rules! capabilities {
    ($($(#[doc = $doc:literal])* $name:ident, $word:literal;)*) => {
        /// Something that a store can do beyond the least.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Capability { $($(#[doc = $doc])* $name,)* }

        impl Capability {
            /// Every capability that a manifest may name.
            pub const ALL: &'static [Capability] = &[$(Capability::$name,)*];

            /// Its word, as in a manifest.
            pub const fn word(self) -> &'static str {
                match self { $(Capability::$name => $word,)* }
            }
        }
    };
}

capabilities! {
    /// Other processes see what is stored.
    Shared, "shared";
    /// What is stored survives a power cut.
    Durable, "durable";
    /// Takes messages that have their ids already.
    Import, "import";
    /// Removes messages.
    Remove, "remove";
    /// Keeps direct messages and no topics.
    DirectOnly, "direct-only";
    /// Filters by topic or mailbox.
    FilterScope, "filter.scope";
    /// Filters by ids.
    FilterIds, "filter.ids";
    /// Filters by sender.
    FilterFrom, "filter.from";
    /// Filters by thread.
    FilterThread, "filter.thread";
    /// Filters by time.
    FilterTime, "filter.time";
    /// Stops at a number of messages.
    FilterLimit, "filter.limit";
    /// Answers in either order.
    FilterOrder, "filter.order";
    /// Filters by what a message says.
    FilterText, "filter.text";
    /// Counts mailboxes without reading them.
    Summary, "summary";
    /// Keeps the states of mail itself.
    Mailbox, "mailbox";
}

/// The keys that are understood. Others are left alone, so that manifests can grow.
const KINDS: [&str; 3] = ["store", "transport", "relay"];

impl Manifest {
    /// Reads a manifest; `file` is where it came from, for the error.
    pub fn parse(text: &str, file: &str) -> Result<Manifest> {
        let read = Reading { file };
        let value: Value = serde_json::from_str(text).map_err(|error| {
            read.wrong(format!("the manifest is not JSON: {error} (got {})", shown(&Value::String(text.into()))))
        })?;
        let Value::Object(map) = value else {
            return Err(read.wrong(format!("the manifest is {}; expected an object", word_for(&value))));
        };
        let kind = read.kind(&map)?;
        let profile = read.profile(&map, kind)?;
        Ok(Manifest {
            name: read.name(&map)?,
            version: read.version(&map)?,
            kind,
            profile,
            capabilities: read.capabilities(&map, kind, profile)?,
            max_message_bytes: read.max_message_bytes(&map)?,
            config_schema: Schema::parse(map.get("config_schema")).map_err(|what| read.wrong(what))?,
            build: read.section(&map, "build")?,
        })
    }

    /// The manifest as JSON, with what is implied.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".into(), self.name.as_str().into());
        map.insert("version".into(), self.version.as_str().into());
        map.insert("kind".into(), self.kind.word().into());
        if self.kind == PluginKind::Store {
            let profile = if self.profile == StoreProfile::Log { "log" } else { "store" };
            map.insert("profile".into(), profile.into());
        }
        let words: Vec<&str> = self.capabilities.iter().map(|capability| capability.word()).collect();
        map.insert("capabilities".into(), words.into());
        let limits = self.max_message_bytes.map(|bytes| ("max_message_bytes".to_string(), bytes.into()));
        map.insert("limits".into(), limits.into_iter().collect::<Map<String, Value>>().into());
        map.insert("config_schema".into(), self.config_schema.to_json());
        map.insert("build".into(), self.build.clone().into());
        map.into()
    }

    /// Whether the plugin can do this.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

impl Manifest {
    /// Checks that the plugin is of the kind that is asked for, and the one that is asked for; `file` is where it came from.
    pub fn used_as(&self, settings: &PluginSettings, kind: PluginKind, file: &str) -> Result<()> {
        let wrong = |what: String, help: String| {
            Err(Error::new(ErrorKind::InvalidConfig, what).context("file", file).help(help))
        };
        if self.kind != kind {
            let (key, got) = (kind.key(), self.kind);
            let text = format!("expected a {kind}, since `{key}` names it, got a {got}");
            return wrong(text, format!("name it in `{}` instead", got.key()));
        }
        // What the configuration names may be any plugin, unless `use` says which.
        let named = settings.file.is_some() || settings.command.is_some();
        let any = named && settings.origin("use") == Origin::Default;
        if !any && self.name != settings.plugin {
            let text = format!("expected the plugin `{}`, got `{}`", settings.plugin, self.name);
            return wrong(text, "the manifest's `name` and the file's name must be the same".into());
        }
        Ok(())
    }
}

/// Reads the parts of a manifest, and names its file in every error.
struct Reading<'a> {
    file: &'a str,
}

impl Reading<'_> {
    fn wrong(&self, what: String) -> Error {
        Error::new(ErrorKind::InvalidConfig, what)
            .context("file", self.file)
            .help("this is for the plugin's author to repair: docs/plugins has what a manifest may say")
    }

    /// The error about a key: expected, got.
    fn expected(&self, key: &str, expected: &str, got: Option<&Value>) -> Error {
        let got = got.map_or("nothing".to_string(), shown);
        self.wrong(format!("the manifest's `{key}` is wrong: expected {expected}, got {got}"))
    }

    fn text<'m>(&self, map: &'m Map<String, Value>, key: &str, expected: &str) -> Result<&'m str> {
        match map.get(key) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            other => Err(self.expected(key, expected, other)),
        }
    }

    fn name(&self, map: &Map<String, Value>) -> Result<PluginName> {
        let expected = PluginName::ALLOWED;
        self.text(map, "name", expected)?.parse().map_err(|_| self.expected("name", expected, map.get("name")))
    }

    fn version(&self, map: &Map<String, Value>) -> Result<String> {
        let expected = "a text of 1 to 64 characters without control characters";
        let text = self.text(map, "version", expected)?;
        if text.chars().count() > 64 || text.contains(char::is_control) {
            return Err(self.expected("version", expected, map.get("version")));
        }
        Ok(text.to_string())
    }

    fn kind(&self, map: &Map<String, Value>) -> Result<PluginKind> {
        let expected = "store, transport or relay";
        let word = self.text(map, "kind", expected)?;
        PluginKind::ALL
            .into_iter()
            .find(|kind| kind.word() == word)
            .ok_or_else(|| self.expected("kind", expected, map.get("kind")).help(suggestion(word, KINDS)))
    }

    fn profile(&self, map: &Map<String, Value>, kind: PluginKind) -> Result<StoreProfile> {
        match (map.get("profile"), kind) {
            (None, _) => Ok(StoreProfile::Store),
            (Some(Value::String(word)), PluginKind::Store) if word == "store" => Ok(StoreProfile::Store),
            (Some(Value::String(word)), PluginKind::Store) if word == "log" => Ok(StoreProfile::Log),
            (got, PluginKind::Store) => Err(self.expected("profile", "store or log", got)),
            (got, kind) => Err(self.expected("profile", &format!("nothing, since a {kind} has no profile"), got)),
        }
    }

    fn capabilities(
        &self,
        map: &Map<String, Value>,
        kind: PluginKind,
        profile: StoreProfile,
    ) -> Result<BTreeSet<Capability>> {
        let items = match map.get("capabilities") {
            None => return Ok(BTreeSet::new()),
            Some(Value::Array(items)) => items,
            other => return Err(self.expected("capabilities", "a list of texts", other)),
        };
        // Those of stores are all that there are so far.
        let allowed: &[Capability] = if kind == PluginKind::Store { Capability::ALL } else { &[] };
        let words = allowed.iter().map(|capability| capability.word());
        let one = |item: &Value| {
            let Value::String(word) = item else {
                return Err(self.expected("capabilities", "a list of texts", Some(item)));
            };
            allowed.iter().copied().find(|known| known.word() == word).ok_or_else(|| {
                let error = self
                    .wrong(format!("the manifest names the capability {}, which a {kind} does not have", shown(item)));
                match allowed {
                    [] => error.help(format!("there are no capabilities of a {kind}; remove it")),
                    _ => error.help(suggestion(word, words.clone())),
                }
            })
        };
        let claimed: BTreeSet<Capability> = items.iter().map(one).collect::<Result<_>>()?;
        if profile == StoreProfile::Log && claimed.contains(&Capability::Mailbox) {
            return Err(self
                .wrong("the manifest claims `mailbox` with the profile `log`, and a log knows no mail".into())
                .help("remove the capability, or write a store of the whole contract: `\"profile\": \"store\"`"));
        }
        Ok(claimed)
    }

    fn max_message_bytes(&self, map: &Map<String, Value>) -> Result<Option<usize>> {
        let limits = self.section(map, "limits")?;
        let expected = "a whole number from 128";
        let Some(value) = limits.get("max_message_bytes") else { return Ok(None) };
        match value.as_u64().and_then(|number| usize::try_from(number).ok()) {
            Some(number @ 128..) => Ok(Some(number)),
            _ => Err(self.expected("limits.max_message_bytes", expected, Some(value))),
        }
    }

    /// An object that need not be there.
    fn section(&self, map: &Map<String, Value>, key: &str) -> Result<Map<String, Value>> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(section)) => Ok(section.clone()),
            other => Err(self.expected(key, "an object", other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"{"name":"mine","version":"0.1.0","kind":"store"}"#;

    #[test]
    fn the_least_manifest_and_a_full_one() {
        let least = Manifest::parse(LEAST, "x.so").unwrap();
        assert_eq!((least.name.as_str(), least.kind, least.profile), ("mine", PluginKind::Store, StoreProfile::Store));
        assert!(least.capabilities.is_empty() && least.max_message_bytes.is_none() && least.build.is_empty());
        let full = Manifest::parse(
            r#"{"name":"my-log","version":"1","kind":"store","profile":"log","capabilities":["shared","filter.text"],
                "limits":{"max_message_bytes":4096,"more":1},"config_schema":{"type":"object","properties":{}},
                "build":{"sdk":"0.1"},"something_new":[1]}"#,
            "x.so",
        )
        .unwrap();
        assert_eq!((full.profile, full.max_message_bytes), (StoreProfile::Log, Some(4096)));
        assert!(full.has(Capability::Shared) && full.has(Capability::FilterText) && !full.has(Capability::Remove));
        assert_eq!(full.build["sdk"], "0.1");
    }

    #[track_caller]
    fn refused(change: &str, parts: &[&str]) {
        let mut map: Map<String, Value> = serde_json::from_str(LEAST).unwrap();
        map.extend(serde_json::from_str::<Map<String, Value>>(change).unwrap());
        let error = Manifest::parse(&Value::Object(map).to_string(), "/p/libfmail_mine.so").unwrap_err();
        let whole = format!("{error} / {}", error.help_text().unwrap_or_default());
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        for part in ["/p/libfmail_mine.so", "manifest"].iter().chain(parts) {
            assert!(whole.contains(part), "`{part}` is not in: {whole}");
        }
    }

    #[test]
    fn wrong_manifests_name_the_file_the_key_what_was_expected_and_what_was_got() {
        refused(r#"{"name":"No Good"}"#, &["`name`", "expected 1 to 32", "got \"No Good\""]);
        refused(r#"{"name":7}"#, &["`name`", "got 7"]);
        refused(r#"{"version":null}"#, &["`version`", "got null"]);
        refused(r#"{"version":"a\nb"}"#, &["`version`", "control"]);
        refused(r#"{"kind":"stor"}"#, &["`kind`", "store, transport or relay", "got \"stor\"", "did you mean `store`"]);
        refused(r#"{"profile":"logs"}"#, &["`profile`", "expected store or log"]);
        refused(r#"{"kind":"relay","profile":"log"}"#, &["`profile`", "a relay has no profile"]);
        refused(r#"{"capabilities":"shared"}"#, &["`capabilities`", "a list of texts"]);
        refused(r#"{"capabilities":["shared",1]}"#, &["`capabilities`", "got 1"]);
        refused(r#"{"capabilities":["filter.txt"]}"#, &["capability \"filter.txt\"", "did you mean `filter.text`"]);
        refused(r#"{"capabilities":["teleport"]}"#, &["capability \"teleport\"", "allowed are `shared`"]);
        refused(r#"{"profile":"log","capabilities":["mailbox"]}"#, &["`mailbox`", "`log`", "the whole contract"]);
        refused(r#"{"kind":"transport","capabilities":["shared"]}"#, &["a transport does not have"]);
        refused(r#"{"limits":{"max_message_bytes":-1}}"#, &["`limits.max_message_bytes`", "got -1"]);
        refused(r#"{"limits":[]}"#, &["`limits`", "expected an object"]);
        refused(r#"{"config_schema":{"oneOf":[]}}"#, &["`config_schema`", "`oneOf`"]);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_beginning() {
        let error = Manifest::parse("hello there", "p").unwrap_err();
        assert!(error.to_string().contains("not JSON") && error.to_string().contains("hello there"), "{error}");
        let error = Manifest::parse("[]", "p").unwrap_err();
        assert!(error.to_string().contains("a list; expected an object"), "{error}");
        let missing = Manifest::parse("{}", "p").unwrap_err();
        assert!(missing.to_string().contains("`kind`") && missing.to_string().contains("got nothing"), "{missing}");
    }
}
