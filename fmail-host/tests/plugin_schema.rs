//! A plugin's section against the schema of its manifest: every mistake with its key, its place and what is allowed.

mod common;

use common::Place;
use fmail_host::{Manifest, Mistake, Review, Settings};
use serde_json::{Value, json};

const USER: &str = "home/.config/fmail/config.toml";
const TOML: &str = "app/.fmail/config.toml";

fn manifest() -> Manifest {
    let schema = json!({
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "format": "path", "minLength": 1, "description": "where the messages are kept"},
            "journal": {"type": "string", "enum": ["wal", "delete"], "default": "wal"},
            "size": {"type": "integer", "minimum": 1, "maximum": 64, "default": 4},
            "ratio": {"type": "number", "minimum": 0, "maximum": 1},
            "sync": {"type": "boolean"},
            "peers": {"type": "array", "items": {"type": "string", "format": "address"}},
            "run": {"type": "array", "format": "command", "items": {"type": "string"}},
            "key": {"type": "string", "format": "secret", "minLength": 8},
            "pool": {"type": "object", "required": ["min"], "properties": {
                "min": {"type": "integer"}, "max": {"type": "integer", "default": 9}}},
            "cache": {"type": "object", "properties": {"bytes": {"type": "integer", "default": 1024}}},
        },
    });
    let text = json!({"name": "sqlite", "version": "1", "kind": "store", "config_schema": schema}).to_string();
    Manifest::parse(&text, "libfmail_sqlite.so").unwrap()
}

fn check(place: &Place, vars: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Value, Vec<Mistake>> {
    let flags: Vec<(String, String)> = flags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let project = place.project("app", &[]).unwrap();
    let settings = Settings::load(&place.environment("app", vars), Some(&project), &flags).unwrap();
    manifest().config_schema.check(&settings.plugin(&"sqlite".parse().unwrap()))
}

/// The mistakes as `key @line what / help`, without the start of the key and the path of the file.
#[track_caller]
fn mistakes(place: &Place) -> Vec<String> {
    let told = |mistake: Mistake| {
        let line = mistake.origin.to_string().rsplit(':').next().unwrap_or_default().to_string();
        let key = mistake.key.trim_start_matches("mail.plugin.sqlite.").to_string();
        format!("{key} @{line} {} / {}", mistake.what, mistake.help.unwrap_or_default())
    };
    check(place, &[], &[]).unwrap_err().into_iter().map(told).collect()
}

#[test]
fn defaults_are_filled_in_and_paths_below_home_are_whole() {
    let place = Place::new();
    place.write(USER, "[mail.plugin.sqlite.config]\npath = '~/mail.db'\nratio = 0.5\npool = {min = 1}\n");
    let path = place.path("home/mail.db").display().to_string();
    assert_eq!(
        check(&place, &[], &[]).unwrap(),
        json!({"path": path, "journal": "wal", "size": 4, "ratio": 0.5, "pool": {"min": 1, "max": 9}, "cache": {"bytes": 1024}})
    );
}

#[test]
fn every_mistake_is_told_with_its_line() {
    let place = Place::new();
    place.write(
        USER,
        "[mail.plugin.sqlite.config]\npth = 'x'\njournal = 'wall'\nsize = 65\nratio = inf\nsync = 'yes'\n\
         peers = [\n 'a:1',\n 7,\n]\npool = {max = 1.5}\nkey = 'short'\ncache = 3\n",
    );
    let told = mistakes(&place);
    for (part, expected) in [
        ("config.pth @2", "is not a key of the plugin `sqlite` / did you mean `path`?"),
        ("config.path @1", "is missing; allowed is a text of 1 or more characters / where the messages are kept"),
        ("config.journal @3", "is the text \"wall\"; allowed is \"wal\" or \"delete\" / did you mean `wal`?"),
        ("config.size @4", "is the number 65; allowed is a whole number from 1 to 64"),
        ("config.ratio @5", "is the number inf; allowed is a number from 0 to 1"),
        ("config.sync @6", "is the text \"yes\"; allowed is true or false"),
        ("config.peers[1] @9", "is the number 7; allowed is a text"),
        ("config.pool.min @11", "is missing; allowed is a whole number"),
        ("config.pool.max @11", "is the number 1.5; allowed is a whole number"),
        ("config.key @12", "is a value that is not shown; allowed is a text of 8 or more characters"),
        ("config.cache @13", "is the number 3; allowed is a section"),
    ] {
        assert!(told.iter().any(|one| one.starts_with(part) && one.contains(expected)), "{part} {expected}: {told:#?}");
    }
    assert_eq!(told.len(), 11, "{told:#?}");
    let project = place.project("app", &[]).unwrap();
    let settings = Settings::load(&place.environment("app", &[]), Some(&project), &[]).unwrap();
    let error = manifest().config_schema.configured(&settings.plugin(&"sqlite".parse().unwrap())).unwrap_err();
    assert!(error.to_string().contains("11 mistakes") && error.to_string().contains("config.toml:3: "), "{error}");
    assert!(!error.to_string().contains("short"), "a secret is shown: {error}");
}

#[test]
fn without_a_section_what_is_required_is_missing() {
    let told = mistakes(&Place::new());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("config.path @default is missing"), "{told:?}");
}

#[test]
fn texts_of_variables_and_flags_become_what_the_schema_wants() {
    let place = Place::new();
    let vars = [
        ("FMAIL_PLUGIN__SQLITE__CONFIG__PATH", "/x"),
        ("FMAIL_PLUGIN__SQLITE__CONFIG__SIZE", "7"),
        ("FMAIL_PLUGIN__SQLITE__CONFIG__SYNC", "true"),
        ("FMAIL_PLUGIN__SQLITE__CONFIG__PEERS", "a:1, b:2"),
        ("FMAIL_PLUGIN__SQLITE__CONFIG__KEY", "long enough"),
        ("FMAIL_PLUGIN__SQLITE__CONFIG__CACHE", r#"{"bytes": 5}"#),
    ];
    let flags = [("mail.plugin.sqlite.config.pool.min", "3"), ("mail.plugin.sqlite.config.run", r#"["a,b", "c"]"#)];
    let value = check(&place, &vars, &flags).unwrap();
    assert_eq!(value["size"], 7);
    assert_eq!((&value["sync"], &value["peers"]), (&json!(true), &json!(["a:1", "b:2"])));
    assert_eq!((&value["pool"], &value["run"]), (&json!({"min": 3, "max": 9}), &json!(["a,b", "c"])));
    assert_eq!(value["cache"], json!({"bytes": 5}));
    let wrong = check(&place, &[vars[0], ("FMAIL_PLUGIN__SQLITE__CONFIG__SIZE", "many")], &[]).unwrap_err();
    assert!(wrong[0].what.contains("is the text \"many\"; allowed is a whole number"), "{wrong:?}");
    assert_eq!(wrong[0].origin.to_string(), "FMAIL_PLUGIN__SQLITE__CONFIG__SIZE");
    let secret = check(&place, &[vars[0]], &[("mail.plugin.sqlite.config.key", "long enough")]).unwrap_err();
    assert!(secret[0].what.contains("on the command line"), "{secret:?}");
}

#[test]
fn a_strange_project_file_sets_no_path_command_address_or_secret() {
    let place = Place::new();
    place.write(USER, "mail.plugin.sqlite.config.path = '/mine'\n");
    place.write(
        TOML,
        "[mail.plugin.sqlite.config]\nsize = 9\npath = '/etc/passwd'\npeers = ['evil:1']\nrun = ['sh']\njournal = 'delete'\nkey = 'known to others'\n",
    );
    let told = mistakes(&place);
    for (key, what) in [
        ("config.path @3", "a path"),
        ("config.peers[0] @4", "an address"),
        ("config.run @5", "a command"),
        ("config.key @7", "a secret"),
    ] {
        let one = told.iter().find(|one| one.starts_with(key)).unwrap_or_else(|| panic!("{key}: {told:#?}"));
        assert!(one.contains(&format!("names {what} in a project's file")) && one.contains("fmail trust"), "{one}");
    }
    assert_eq!(told.len(), 4, "{told:#?}");
    let (environment, project) = (place.environment("app", &[]), place.project("app", &[]).unwrap());
    Review::of(&environment, &project).unwrap().trust(&environment).unwrap();
    let value = check(&place, &[], &[]).unwrap();
    assert_eq!(
        (&value["path"], &value["size"], &value["journal"]),
        (&json!("/etc/passwd"), &json!(9), &json!("delete"))
    );
}

#[test]
fn a_schema_outside_of_the_subset_is_refused_with_the_keyword() {
    for (schema, parts) in [
        (json!({"oneOf": []}), &["`config_schema`", "`oneOf`"][..]),
        (json!({"type": "string"}), &["`config_schema.type` is not \"object\""]),
        (json!([]), &["`config_schema` is a list; expected an object"]),
        (
            json!({"additionalProperties": true}),
            &["`config_schema.additionalProperties`", "expected false", "got true"],
        ),
        (json!({"properties": {"a": {}}}), &["`config_schema.properties.a` has no `type`"]),
        (
            json!({"properties": {"a": {"type": "strin"}}}),
            &["`config_schema.properties.a.type`", "did you mean `string`"],
        ),
        (json!({"properties": {"a": {"type": "string", "pattern": "x"}}}), &["`pattern`"]),
        (json!({"properties": {"a": {"type": "string", "minimum": 1}}}), &["`minimum`", "type string"]),
        (json!({"properties": {"a": {"type": "string", "format": "paht"}}}), &["format", "did you mean `path`"]),
        (json!({"properties": {"a": {"type": "array"}}}), &["`config_schema.properties.a.items`"]),
        (
            json!({"properties": {"a": {"type": "integer", "minimum": 1.5}}}),
            &["`minimum`".trim_matches('`'), "whole number"],
        ),
        (json!({"properties": {"a.b": {"type": "string"}}}), &["no dot"]),
        (json!({"required": ["a"]}), &["`config_schema.required`", "stand in `properties`"]),
        (
            json!({"properties": {"a": {"type": "integer", "default": "x"}}}),
            &["the default of", "does not fit", "\"x\""],
        ),
        (json!({"properties": {"a": {"type": "string", "enum": []}}}), &["`config_schema.properties.a.enum`"]),
    ] {
        let text = json!({"name": "a", "version": "1", "kind": "store", "config_schema": schema}).to_string();
        let error = Manifest::parse(&text, "p.so").unwrap_err().to_string();
        for part in parts.iter().chain(&["p.so", "config_schema"]) {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
}

#[test]
fn the_schema_prints_as_json_schema_and_reads_back() {
    let printed = manifest().config_schema.to_json();
    assert_eq!(printed["additionalProperties"], false);
    assert_eq!(printed["properties"]["pool"]["additionalProperties"], false);
    assert_eq!(
        printed["properties"]["journal"],
        json!({"type": "string", "enum": ["wal", "delete"], "default": "wal"})
    );
    let text = json!({"name": "sqlite", "version": "1", "kind": "store", "config_schema": printed}).to_string();
    assert_eq!(Manifest::parse(&text, "p").unwrap().config_schema, manifest().config_schema);
    assert!(manifest().config_schema.is_secret("key") && !manifest().config_schema.is_secret("pool.min"));
    assert!(manifest().config_schema.is_secret("unknown"));
}
