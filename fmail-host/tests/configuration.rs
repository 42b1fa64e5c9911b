//! The layers of the configuration, and what each wrong file, variable and flag is answered with.

mod common;

use std::os::unix::fs::symlink;
use std::time::Duration;

use common::Place;
use fmail_api::{Error, ErrorKind, Result};
use fmail_host::{ConfigFile, Durability, Mail, Origin, Settings};

/// Loads with the project `app` and these variables and flags.
fn load(place: &Place, vars: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings> {
    let environment = place.environment("app", vars);
    let project = place.project("app", &[])?;
    let flags: Vec<(String, String)> = flags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Settings::load(&environment, Some(&project), &flags)
}

#[track_caller]
fn refused(result: Result<Settings>, parts: &[&str]) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    let whole = format!("{error} / {}", error.help_text().unwrap_or_default());
    for part in parts {
        assert!(whole.contains(part), "`{part}` is not in: {whole}");
    }
    error
}

const TOML: &str = "app/.fmail/config.toml";
const YAML: &str = "app/.fmail/config.yaml";
const USER: &str = "home/.config/fmail/config.toml";
const SYSTEM: &str = "etc/config.toml";

#[test]
fn without_any_source_everything_is_at_its_default() {
    let place = Place::new();
    let vars = [
        ("FMAIL_AGENT", "bob"),
        ("FMAIL_ROOT", "/"),
        ("FMAIL_PROJECT", "x"),
        ("FMAIL_TEST_X", "1"),
        ("FMAIL_CONFORMANCE_SEED", "1"),
        ("FMAILER", "no"),
    ];
    assert_eq!(load(&place, &vars, &[]).unwrap(), Settings::default());
    let mail = Settings::default().mail;
    assert_eq!((mail.store.as_str(), mail.durability, mail.max_message_bytes), ("files", Durability::Disk, 1_048_576));
    assert_eq!((mail.lock_timeout, mail.strict_recipients), (Duration::from_secs(10), false));
    assert_eq!((mail.watch.events, mail.watch.poll_interval), (true, Duration::from_millis(100)));
    assert_eq!((mail.gc.days, mail.relay.enabled, mail.relay.peers.len()), (7, false, 0));
}

#[test]
fn later_sources_win_key_by_key_and_every_value_knows_its_origin() {
    let place = Place::new();
    place.write(SYSTEM, "mail.gc.days = 1\nmail.durability = 'os'\nmail.lock_timeout = '1s'\n");
    let user = place.write(USER, "[mail]\nlock_timeout = '2s'\ngc.days = 2\n");
    let project = place.write(YAML, "mail:\n  gc:\n    days: 3\n  watch:\n    events: false\n");
    let settings = load(
        &place,
        &[("FMAIL_GC__DAYS", "4"), ("FMAIL_MAX_MESSAGE_BYTES", "2048")],
        &[("mail.gc.days", "5"), ("mail.strict_recipients", "true"), ("mail.gc.days", "6")],
    )
    .unwrap();
    let file = |file, path: &std::path::Path, line| Origin::File { file, path: path.to_path_buf(), line };
    for (key, value, origin) in [
        ("mail.store", "files", Origin::Default),
        ("mail.durability", "os", file(ConfigFile::System, &place.path(SYSTEM), 2)),
        ("mail.max_message_bytes", "2048", Origin::Environment("FMAIL_MAX_MESSAGE_BYTES".into())),
        ("mail.lock_timeout", "2s", file(ConfigFile::User, &user, 2)),
        ("mail.strict_recipients", "true", Origin::Flag),
        ("mail.watch.events", "false", file(ConfigFile::Project, &project, 5)),
        ("mail.watch.poll_interval", "100ms", Origin::Default),
        ("mail.gc.days", "6", Origin::Flag),
    ] {
        let entry = settings.entries().into_iter().find(|entry| entry.key == key).unwrap();
        assert_eq!((entry.value.as_str(), &entry.origin), (value, &origin), "{key}");
        assert_eq!(settings.origin(key), origin);
    }
    assert_eq!(settings.mail.gc.days, 6);
    assert_eq!(settings.mail.max_message_bytes, 2048);
    assert_eq!(settings.mail.lock_timeout, Duration::from_secs(2));
    assert_eq!(settings.origin("mail.lock_timeout").to_string(), format!("{}:2", user.display()));
}

#[test]
fn the_users_file_is_found_by_xdg_first() {
    let place = Place::new();
    place.write("xdg/fmail/config.yaml", "mail: {gc: {days: 11}}\n");
    place.write(USER, "mail.gc.days = 12\n");
    let days = |xdg: &str| load(&place, &[("XDG_CONFIG_HOME", xdg)], &[]).unwrap().mail.gc.days;
    assert_eq!(days(place.path("xdg").to_str().unwrap()), 11);
    assert_eq!(days(""), 12);
    assert_eq!(days("relative/does/not/count"), 12);
}

#[test]
fn the_users_file_may_be_a_link_and_the_projects_may_not() {
    let place = Place::new();
    let real = place.write("dotfiles/fmail.toml", "mail.gc.days = 9\n");
    place.dir("home/.config/fmail");
    symlink(&real, place.path(USER)).unwrap();
    assert_eq!(load(&place, &[], &[]).unwrap().mail.gc.days, 9);
    place.dir("app/.fmail");
    symlink(&real, place.path(TOML)).unwrap();
    refused(load(&place, &[], &[]), &["config.toml", "symbolic link"]);
}

#[test]
fn a_directory_or_a_huge_file_in_the_projects_place_is_refused() {
    let place = Place::new();
    place.dir(TOML);
    refused(load(&place, &[], &[]), &["config.toml", "not a regular file"]);
    let place = Place::new();
    place.write(YAML, &"#\n".repeat(500_001));
    refused(load(&place, &[], &[]), &["config.yaml", "more than 1000000 bytes"]);
}

#[test]
fn two_files_in_one_place_are_refused() {
    for directory in ["app/.fmail", "home/.config/fmail", "etc"] {
        let place = Place::new();
        place.write(&format!("{directory}/config.toml"), "");
        place.write(&format!("{directory}/config.yaml"), "");
        refused(load(&place, &[], &[]), &["config.toml", "config.yaml", "only one"]);
    }
}

#[test]
fn empty_files_and_empty_sections_change_nothing() {
    for (name, text) in [(TOML, ""), (TOML, "[mail]\n[mail.watch]\n"), (YAML, ""), (YAML, "# x\n"), (YAML, "mail:\n")] {
        let place = Place::new();
        place.write(name, text);
        assert_eq!(load(&place, &[], &[]).unwrap(), Settings::default(), "{text:?}");
    }
}

#[test]
fn wrong_files_name_file_line_key_what_was_found_and_what_is_allowed() {
    for (name, text, line, parts) in [
        (TOML, "[mail]\nstor = 'files'\n", 2, &["`mail.stor` is not a key", "did you mean `mail.store`"][..]),
        (YAML, "mail:\n  watch:\n    event: true\n", 3, &["`mail.watch.event`", "`mail.watch.events`"]),
        (TOML, "\n\nevents = true\n", 3, &["`events` is not a key", "`mail.watch.events`"]),
        (TOML, "[mail.sqlite]\npath = 'x'\n", 1, &["`mail.sqlite` is not a key", "allowed are"]),
        (YAML, "mail:\n  watch: on please\n", 2, &["`mail.watch` is the text", "section"]),
        (YAML, "- a\n- b\n", 1, &["the file is a list", "section `mail`"]),
        (YAML, "just text\n", 1, &["the file is the text"]),
        (TOML, "[mail]\ngc = 7\n", 2, &["`mail.gc` is the number 7", "section"]),
        (TOML, "[mail.gc]\n# days\ndays = '7'\n", 3, &["`mail.gc.days` is the text \"7\"", "whole number from 1"]),
        (YAML, "mail:\n  gc:\n    days: -1\n", 3, &["the number -1", "whole number from 1"]),
        (TOML, "mail.gc.days = 1.5\n", 1, &["the number 1.5", "whole number"]),
        (TOML, "mail.gc.days = 2026-01-10\n", 1, &["the date 2026-01-10"]),
        (YAML, "mail:\n  watch:\n    events: 'true'\n", 3, &["the text \"true\"", "true or false"]),
        (TOML, "mail.lock_timeout = 10\n", 1, &["the number 10", "length of time", "\"10s\""]),
        (TOML, "mail.lock_timeout = '10 parsecs'\n", 1, &["the text \"10 parsecs\"", "1h30m"]),
        (TOML, "mail.lock_timeout = '2d'\n", 1, &["the text \"2d\"", "1ms to 1h"]),
        (TOML, "mail.durability = 'dsk'\n", 1, &["disk or os", "did you mean `disk`"]),
        (TOML, "mail.max_message_bytes = 1\n", 1, &["the number 1", "from 128 to 67108864"]),
        (YAML, "mail:\n  store:\n", 2, &["`mail.store` is empty", "the name of a store"]),
        (TOML, "[mail.relay]\npeers = [\n 'host-a:1',\n 'host-b',\n]\n", 4, &["\"host-b\"", "host:port"]),
        (YAML, "mail:\n  relay:\n    peers:\n      - a:1\n      - 7\n", 5, &["the number 7", "host:port"]),
        (TOML, "mail.store = 'file'\n", 1, &["the text \"file\"", "did you mean `files`"]),
        (TOML, "mail.store = 'postgres'\n", 1, &["there is no store named `postgres`", "`files`, `memory`"]),
        (TOML, "[mail]\nstore = 'files'\nprovider = 'files'\n", 3, &["`mail.provider`", "second time", ":2"]),
        (TOML, "[mail\n", 1, &["not TOML"]),
        (TOML, "a = 1\nb = 'open\n", 2, &["not TOML"]),
        (YAML, "mail:\n  store: [\n", 2, &["not YAML"]),
        (YAML, "mail: 1\nmail: 2\n", 2, &["not YAML", "mail"]),
    ] {
        let place = Place::new();
        let path = place.write(name, text);
        let error = refused(load(&place, &[], &[]), parts);
        let start = format!("{}:{line}: ", path.display());
        assert!(error.to_string().starts_with(&start), "`{start}` does not begin: {error}");
    }
}

#[test]
fn a_wrong_value_is_an_error_even_where_a_later_source_hides_it() {
    let place = Place::new();
    place.write(SYSTEM, "mail.gc.days = 0\n");
    refused(load(&place, &[("FMAIL_GC__DAYS", "4")], &[]), &["etc/config.toml:1", "mail.gc.days"]);
}

#[test]
fn wrong_text_is_refused_with_its_line() {
    let place = Place::new();
    let path = place.path(TOML);
    place.dir("app/.fmail");
    std::fs::write(&path, b"# fine\n# \xff\n").unwrap();
    refused(load(&place, &[], &[]), &["config.toml", "line 2 is not UTF-8"]);
}

#[test]
fn variables_set_every_kind_of_key() {
    let place = Place::new();
    let vars = [
        ("FMAIL_STORE", "memory"),
        ("FMAIL_DURABILITY", "os"),
        ("FMAIL_WATCH__EVENTS", "false"),
        ("FMAIL_WATCH__POLL_INTERVAL", "250ms"),
        ("FMAIL_RELAY__PEERS", "host-a:7463, host-b:7463"),
    ];
    let Mail { store, durability, watch, relay, .. } = load(&place, &vars, &[]).unwrap().mail;
    assert_eq!((store.as_str(), durability), ("memory", Durability::Os));
    assert_eq!((watch.events, watch.poll_interval), (false, Duration::from_millis(250)));
    assert_eq!(relay.peers, ["host-a:7463", "host-b:7463"]);
    assert_eq!(load(&place, &[("FMAIL_PROVIDER", "memory")], &[]).unwrap().mail.store, "memory");
}

#[test]
fn wrong_variables_and_flags_are_named() {
    let place = Place::new();
    let variable = |name, value| load(&place, &[(name, value)], &[]);
    refused(variable("FMAIL_WATCH__EVENT", "true"), &["FMAIL_WATCH__EVENT ", "did you mean `FMAIL_WATCH__EVENTS`"]);
    refused(variable("FMAIL_AGNET", "bob"), &["FMAIL_AGNET", "`FMAIL_AGENT`"]);
    refused(variable("FMAIL_MAIL__STORE", "files"), &["FMAIL_MAIL__STORE", "`FMAIL_STORE`"]);
    refused(variable("FMAIL_store", "files"), &["FMAIL_store", "`FMAIL_STORE`"]);
    refused(variable("FMAIL_", ""), &["FMAIL_"]);
    refused(variable("FMAIL_WATCH__EVENTS", "yes"), &["FMAIL_WATCH__EVENTS: ", "\"yes\"", "true or false"]);
    refused(variable("FMAIL_GC__DAYS", ""), &["FMAIL_GC__DAYS: ", "`mail.gc.days` is the text \"\""]);
    refused(load(&place, &[("FMAIL_STORE", "files"), ("FMAIL_PROVIDER", "files")], &[]), &["second time"]);

    let flag = |key, value| load(&place, &[], &[(key, value)]);
    refused(flag("watch.events", "true"), &["flag: `watch.events` is not a key", "`mail.watch.events`"]);
    refused(flag("mail.gc.days", "many"), &["flag: `mail.gc.days` is the text \"many\""]);
    refused(flag("mail.watch", "x"), &["`mail.watch` is not a key"]);
}

#[test]
fn providers_of_other_systems_are_answered_with_what_to_use() {
    let place = Place::new();
    place.write(YAML, "mail:\n  provider: beadmail\n");
    refused(load(&place, &[], &[]), &["config.yaml:2", "`mail.provider`", "beadmail", "use `files`"]);
    place.write(YAML, "mail:\n  provider: exec\n");
    refused(load(&place, &[], &[]), &["exec", "comes with fmail, and is not installed", "cargo xtask install"]);
    place.write(YAML, "mail:\n  provider: files\n");
    assert_eq!(load(&place, &[], &[]).unwrap().mail.store, "files");
}

#[test]
fn a_project_file_may_not_name_a_path_or_a_command() {
    for hostile in ["./evil.so", "/tmp/evil", "evil.so", "sh -c id", "~/evil", "$(id)", "..", "exec:/bin/sh", "a\\b"] {
        let place = Place::new();
        place.write(TOML, &format!("mail.store = '{hostile}'\n"));
        refused(load(&place, &[], &[]), &["config.toml:1", "a project file may not name a path", "files or memory"]);
        assert!(load(&Place::new(), &[("FMAIL_STORE", hostile)], &[]).is_err());
    }
}

/// SPEC.md's relay configuration, as it stands there.
const RELAY: &str = r#"mail:
  relay:
    enabled: true
    peers:
      - "host-a:7463"
      - "host-b:7463"
    dial_timeout: 2s
    reconnect_interval: 2s
"#;

#[test]
fn the_relay_example_of_the_specification_loads_and_is_trusted_only_outside_a_project() {
    for (name, trusted) in [("etc/config.yaml", true), ("home/.config/fmail/config.yaml", true), (YAML, false)] {
        let place = Place::new();
        place.write(name, RELAY);
        let settings = load(&place, &[], &[]).unwrap();
        let relay = &settings.mail.relay;
        assert!(relay.enabled);
        assert_eq!(relay.peers, ["host-a:7463", "host-b:7463"]);
        assert_eq!((relay.dial_timeout, relay.reconnect_interval), (Duration::from_secs(2), Duration::from_secs(2)));
        assert_eq!(settings.untrusted().is_empty(), trusted, "{name}");
        let peers = settings.entries().into_iter().find(|entry| entry.key == "mail.relay.peers").unwrap();
        assert_eq!((peers.value.as_str(), peers.trusted), ("host-a:7463,host-b:7463", trusted));
    }
}

#[test]
fn what_the_user_says_over_the_project_is_trusted() {
    let place = Place::new();
    place.write(YAML, "mail:\n  relay:\n    enabled: true\n    peers: [\"evil:1\"]\n");
    let settings = load(&place, &[("FMAIL_RELAY__PEERS", "mine:1")], &[]).unwrap();
    assert_eq!(settings.untrusted(), ["mail.relay.enabled"]);
}

#[test]
fn nudge_commands_come_agent_by_agent_from_the_user_and_the_system_and_never_from_a_project() {
    let place = Place::new();
    place.write(SYSTEM, "[mail.nudge]\ndefault = ['logger', '{text}']\nbob = ['write', 'bob']\n");
    let user = place.write(USER, "[mail.nudge]\nBob = ['tmux', 'display', '{from}: {text}']\ncarol = []\n");
    let settings = load(&place, &[], &[]).unwrap();
    let command = |name: &str| settings.mail.nudge_command(&name.parse().unwrap()).map(<[String]>::to_vec);
    assert_eq!(command("bob").unwrap(), ["tmux", "display", "{from}: {text}"]);
    assert_eq!(command("dave").unwrap(), ["logger", "{text}"]);
    assert_eq!(command("carol"), None, "an empty command is none");
    assert_eq!(settings.origin("mail.nudge").to_string(), format!("{}:1", user.display()));
    let entry = settings.entries().into_iter().find(|entry| entry.key == "mail.nudge").unwrap();
    assert_eq!(load(&Place::new(), &[("FMAIL_NUDGE", &entry.value)], &[]).unwrap().mail, settings.mail);

    place.write(TOML, "[mail.nudge]\nbob = ['/bin/evil']\n");
    refused(load(&place, &[], &[]), &["config.toml:1", "`mail.nudge`", "a project file may not", "config path"]);
    place.write(TOML, "mail.nudge.default = ['/bin/evil']\n");
    refused(load(&place, &[], &[]), &["config.toml:1", "a project file may not"]);
}

#[test]
fn what_a_nudge_gives_to_its_command_is_no_setting() {
    let vars = [("FMAIL_NUDGE_AGENT", "bob"), ("FMAIL_NUDGE_FROM", "alice"), ("FMAIL_NUDGE_TEXT", "wake up")];
    assert_eq!(load(&Place::new(), &vars, &[]).unwrap(), Settings::default());
    refused(load(&Place::new(), &[("FMAIL_NUDGE_TXT", "x")], &[]), &["FMAIL_NUDGE_TXT"]);
}

#[test]
fn without_a_project_its_file_is_not_read() {
    let place = Place::new();
    place.write(TOML, "garbage");
    assert_eq!(Settings::load(&place.environment("app", &[]), None, &[]).unwrap(), Settings::default());
}

#[test]
fn the_sample_has_every_key_at_its_default_and_a_comment_for_each() {
    let place = Place::new();
    place.write(USER, Settings::sample());
    let settings = load(&place, &[], &[]).unwrap();
    assert_eq!(settings.mail, Mail::default());
    let lines: Vec<&str> = Settings::sample().lines().collect();
    for entry in settings.entries() {
        let Origin::File { line, .. } = entry.origin else { panic!("{} is not in the sample", entry.key) };
        assert!(lines[line - 2].starts_with("# "), "{} has no comment", entry.key);
    }
}

#[test]
fn the_guide_has_every_key_with_its_variable_and_default() {
    let guide = include_str!("../../docs/configuration.md");
    for entry in Settings::default().entries() {
        let variable = format!("FMAIL_{}", entry.key["mail.".len()..].replace('.', "__").to_uppercase());
        let row = guide.lines().find(|line| line.starts_with(&format!("| `{}` |", entry.key)));
        let row = row.unwrap_or_else(|| panic!("{} has no row", entry.key));
        assert!(row.contains(&format!("`{variable}`")), "{row}");
        let default = if entry.value.is_empty() { "none".into() } else { format!("`{}`", entry.value) };
        assert!(row.contains(&format!("| {default} |")), "{row}");
    }
}

#[test]
fn a_token_stands_in_one_place_and_is_never_shown() {
    let token = "correct-horse-battery-staple-0042";
    let place = Place::new();
    let environment = place.environment("app", &[]);
    assert_eq!(Settings::default().mail.tcp.shared_token(&environment).unwrap(), None);
    let settings = load(&place, &[("FMAIL_TCP__TOKEN", token)], &[]).unwrap();
    assert_eq!(settings.mail.tcp.shared_token(&environment).unwrap().as_deref(), Some(token));
    assert!(!format!("{settings:?} {:?}", settings.entries()).contains(token));
    let both = load(&place, &[("FMAIL_TCP__TOKEN", token), ("FMAIL_TCP__TOKEN_FILE", "/x")], &[]).unwrap();
    let error = both.mail.tcp.shared_token(&environment).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidConfig && error.to_string().contains("both set"), "{error}");
    let short = refused(load(&place, &[("FMAIL_TCP__TOKEN", "hunter2")], &[]), &["FMAIL_TCP__TOKEN", "7 bytes"]);
    assert!(!format!("{short:?}").contains("hunter2"), "{short:?}");
    let flag = refused(load(&place, &[], &[("mail.tcp.token", token)]), &["command line", "FMAIL_TCP__TOKEN"]);
    assert!(!format!("{flag:?}").contains(token), "{flag:?}");
}

#[test]
fn a_project_file_may_not_say_whom_to_believe() {
    for key in ["token", "token_file", "tls.certificate", "tls.key", "tls.authority"] {
        for value in ["", "/etc/passwd", "correct-horse-battery-staple-0042"] {
            let place = Place::new();
            place.write(USER, "mail.tcp.token = 'correct-horse-battery-staple-0042'\n");
            place.write(TOML, &format!("mail.tcp.{key} = '{value}'\n"));
            refused(load(&place, &[], &[]), &["app/.fmail/config.toml:1", "project's file", "your own file"]);
        }
    }
}
