//! The sections of plugins: where their values come from, what names mean, and what a project's file may say.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::Place;
use fmail_api::{Error, ErrorKind, Result};
use fmail_host::{Isolation, PluginForm, PluginSettings, Review, Settings, Standing, TrustNotes};
use serde_json::json;

const TOML: &str = "app/.fmail/config.toml";
const YAML: &str = "app/.fmail/config.yaml";
const USER: &str = "home/.config/fmail/config.toml";

fn load(place: &Place, vars: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings> {
    let environment = place.environment("app", vars);
    let project = place.project("app", &[])?;
    let flags: Vec<(String, String)> = flags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Settings::load(&environment, Some(&project), &flags)
}

fn plugin(settings: &Settings, name: &str) -> PluginSettings {
    settings.plugin(&name.parse().unwrap())
}

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let whole = format!("{error} / {}", error.help_text().unwrap_or_default());
    for part in parts {
        assert!(whole.contains(part), "`{part}` is not in: {whole}");
    }
}

#[track_caller]
fn refused(result: Result<Settings>, parts: &[&str]) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    says(&error, parts);
    error
}

/// A program that could be a plugin.
fn program(place: &Place, name: &str) -> std::path::PathBuf {
    let path = place.write(name, "#!/bin/sh\nexit 1\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Where the user's own plugins lie.
const DATA: &str = "home/.local/share/fmail/plugins";

#[test]
fn a_section_is_merged_key_by_key_and_every_value_knows_its_origin() {
    let place = Place::new();
    let user = place.write(
        USER,
        "[mail.plugin.my-store]\nuse = 'sqlite'\ntimeout = '5s'\nfile = '~/x.so'\nsha256 = ''\n\
         [mail.plugin.my-store.config]\npath = 'a'\npool = {size = 1, kind = 'x'}\n",
    );
    place.write(
        YAML,
        "mail:\n  plugin:\n    my-store:\n      isolation: process\n      config:\n        pool:\n          size: 2\n",
    );
    let settings = load(
        &place,
        &[("FMAIL_PLUGIN__MY_STORE__CONFIG__PATH", "b"), ("FMAIL_PLUGIN__MY_STORE__TIMEOUT", "6s")],
        &[("mail.plugin.my-store.config.pool.kind", "y")],
    )
    .unwrap();
    let own = plugin(&settings, "my-store");
    assert_eq!((own.name.as_str(), own.plugin.as_str()), ("my-store", "sqlite"));
    assert_eq!(own.file, Some(place.path("home/x.so")));
    assert_eq!(
        (own.isolation, own.timeout, own.sha256.clone()),
        (Some(Isolation::Process), Duration::from_secs(6), None)
    );
    assert_eq!(own.config, json!({"path": "b", "pool": {"size": 2, "kind": "y"}}));
    assert_eq!(own.origin("use").to_string(), format!("{}:2", user.display()));
    assert_eq!(own.origin("timeout").to_string(), "FMAIL_PLUGIN__MY_STORE__TIMEOUT");
    let entries: Vec<String> = (settings.plugin_entries().into_iter())
        .map(|(_, entry)| format!("{}={}", entry.key.trim_start_matches("mail.plugin.my-store."), entry.value))
        .collect();
    let expected = [
        "use=sqlite",
        "file=~/x.so",
        "isolation=process",
        "sha256=",
        "timeout=6s",
        "config.path=b",
        "config.pool.kind=y",
        "config.pool.size=2",
    ];
    assert_eq!(entries, expected);
}

#[test]
fn without_a_section_a_plugin_has_its_defaults() {
    let own = plugin(&Settings::default(), "sqlite");
    assert_eq!((own.plugin.as_str(), own.timeout, own.isolation), ("sqlite", Duration::from_secs(30), None));
    assert_eq!((own.config.clone(), own.file.clone(), own.command.clone()), (json!({}), None, None));
    assert!(!own.isolated(PluginForm::Library) && own.isolated(PluginForm::Program));
    assert!(own.checked_file().is_err());
}

#[test]
fn wrong_sections_are_told_with_their_lines() {
    for (text, line, parts) in [
        (
            "[mail.plugin.sqlite]\nfil = '/x'\n",
            2,
            &["`mail.plugin.sqlite.fil` is not a key", "`file`", "sqlite.config"][..],
        ),
        ("[mail.plugin.SQL]\nuse = 'x'\n", 1, &["`mail.plugin.SQL` is no section", "1 to 32"]),
        ("[mail.plugin.files]\nuse = 'x'\n", 1, &["the store `files` is built in", "another name"]),
        ("[mail.plugin]\nsqlite = 7\n", 2, &["`mail.plugin.sqlite` is the number 7", "section"]),
        ("mail.plugin = 'x'\n", 1, &["`mail.plugin` is the text", "section"]),
        ("mail.plugin.x.file = 'x.so'\n", 1, &["`mail.plugin.x.file`", "absolute path"]),
        ("mail.plugin.x.use = 'Not'\n", 1, &["`mail.plugin.x.use`", "name of a plugin"]),
        ("mail.plugin.x.command = 'sh -c id'\n", 1, &["`mail.plugin.x.command`", "a list of texts", "no shell"]),
        ("mail.plugin.x.command = ['./x']\n", 1, &["a name in PATH or an absolute path"]),
        ("mail.plugin.x.isolation = 'proces'\n", 1, &["none or process", "did you mean `process`"]),
        ("mail.plugin.x.sha256 = 'abc'\n", 1, &["64 hexadecimal digits"]),
        ("mail.plugin.x.timeout = 5\n", 1, &["length of time"]),
        ("mail.plugin.x.config = 5\n", 1, &["`mail.plugin.x.config` is the number 5", "section"]),
        ("mail.plugin.x.file = '/a'\nmail.plugin.x.command = ['b']\n", 1, &["beside `command`"]),
        ("mail.plugin.x.command = ['b']\nmail.plugin.x.isolation = 'none'\n", 2, &["process of its own"]),
        (
            "mail.plugin.x.command = ['b']\nmail.plugin.x.sha256 = '0000000000000000000000000000000000000000000000000000000000000000'\n",
            2,
            &["no one file"],
        ),
        (
            "[mail]\ntransports = [\n'unix',\n'a b']\n",
            4,
            &["`mail.transports` is the text \"a b\"", "name of a transport"],
        ),
        ("mail.plugins.path = ['x']\n", 1, &["`mail.plugins.path`", "absolute paths"]),
    ] {
        let place = Place::new();
        let path = place.write(USER, text);
        let error = refused(load(&place, &[], &[]), parts);
        let start = format!("{}:{line}: ", path.display());
        assert!(error.to_string().starts_with(&start), "`{start}` does not begin: {error}");
    }
}

#[test]
fn wrong_variables_and_flags_of_plugins_are_named() {
    let place = Place::new();
    let variable = |name, value| load(&place, &[(name, value)], &[]);
    refused(variable("FMAIL_PLUGIN__SQLITE", "x"), &["FMAIL_PLUGIN__SQLITE", "names no key"]);
    refused(variable("FMAIL_PLUGIN__SQLITE__TIMEOUT", "x"), &["FMAIL_PLUGIN__SQLITE__TIMEOUT: ", "length of time"]);
    refused(variable("FMAIL_PLUGIN__sqlite__TIMEOUT", "1s"), &["FMAIL_PLUGIN__sqlite__TIMEOUT"]);
    refused(variable("FMAIL_PLUGIN__SQLITE__CONFIG", "x"), &["`mail.plugin.sqlite.config` is not a key"]);
    refused(variable("FMAIL_PLUGIN__SQLITE__TIMEOU", "1s"), &["did you mean `timeout`"]);
    refused(variable("FMAIL_PLUGIN__FILES__TIMEOUT", "1s"), &["built in"]);
    refused(variable("FMAIL_PLUGIN__X__COMMAND", "sh -c id"), &["a list of texts"]);
    refused(variable("FMAIL_PLUGIN_PATHS", "/x"), &["FMAIL_PLUGIN_PATHS means nothing"]);
    let flag = |key, value| load(&place, &[], &[(key, value)]);
    refused(flag("mail.plugin.sqlite", "x"), &["flag: ", "is not a key"]);
    refused(flag("mail.plugin.A.use", "x"), &["flag: ", "1 to 32"]);
    refused(flag("mail.plugin.a.config.", "x"), &["flag: ", "is not a key"]);
    let settings = load(&place, &[("FMAIL_PLUGIN__X__COMMAND", r#"["a", "b c"]"#)], &[]).unwrap();
    assert_eq!(plugin(&settings, "x").command.unwrap(), ["a", "b c"]);
}

#[test]
fn all_mistakes_of_all_sources_are_told_together() {
    let place = Place::new();
    let user = place.write(USER, "[mail]\nstor = 'files'\n[mail.gc]\ndays = 0\n[mail.plugin.x]\nfil = 1\nuse = 2\n");
    let project = place.write(YAML, "mail: {watch: {event: 1}}\n");
    let error = refused(
        load(&place, &[("FMAIL_GC__DAYS", "many"), ("FMAIL_NO", "1")], &[("mail.no", "x")]),
        &[
            "8 mistakes",
            "`mail.stor`",
            "`mail.gc.days`",
            "`mail.plugin.x.fil`",
            "FMAIL_GC__DAYS",
            "FMAIL_NO",
            "flag: `mail.no`",
        ],
    );
    for place in
        [format!("{}:2: ", user.display()), format!("{}:7: ", user.display()), format!("{}:1: ", project.display())]
    {
        assert!(error.to_string().contains(&place), "{place} is not in {error}");
    }
    assert!(error.to_string().contains("help: did you mean `mail.store`"), "{error}");
}

#[test]
fn a_broken_file_does_not_hide_the_mistakes_of_another() {
    let place = Place::new();
    place.write(USER, "[mail\n");
    place.write(TOML, "mail.gc.days = 0\n");
    refused(load(&place, &[], &[]), &["2 mistakes", "not TOML", "`mail.gc.days`"]);
}

#[test]
fn names_mean_what_is_built_in_configured_or_found() {
    let place = Place::new();
    let found = program(&place, &format!("{DATA}/fmail-plugin-my-store"));
    let settings = load(&place, &[("FMAIL_STORE", "my-store")], &[]).unwrap();
    let own = plugin(&settings, "my-store");
    assert_eq!(
        own.found.as_ref().map(|found| (found.path.clone(), found.form)),
        Some((found.clone(), PluginForm::Program))
    );
    assert_eq!(own.checked_file().unwrap().unwrap().path, found);
    // Under another name, and by a file or a command that nobody looks at yet.
    let other = load(&place, &[("FMAIL_STORE", "x"), ("FMAIL_PLUGIN__X__USE", "my-store")], &[]).unwrap();
    assert!(plugin(&other, "x").found.is_some());
    for (key, value) in [("FMAIL_PLUGIN__WS__FILE", "/no/such.so"), ("FMAIL_PLUGIN__WS__COMMAND", r#"["no"]"#)] {
        assert!(load(&place, &[("FMAIL_TRANSPORTS", "unix,ws"), (key, value)], &[]).is_ok());
    }
    let relay = load(&place, &[("FMAIL_RELAYS", "my-store")], &[]).unwrap();
    assert_eq!(relay.mail.relays, ["my-store"]);
}

#[test]
fn a_name_that_means_nothing_is_answered_with_near_ones_and_where_was_searched() {
    let place = Place::new();
    program(&place, &format!("{DATA}/fmail-plugin-sqlite"));
    let path = place.write(USER, "[mail]\nrelays = ['miror']\nstore = 'sqlit'\ntransports = ['unix', 'unixx']\n");
    let error = refused(
        load(&place, &[("FMAIL_PLUGIN_PATH", "/some/where:/else")], &[]),
        &[
            "3 mistakes",
            "`mail.store` is the text \"sqlit\"; there is no store named `sqlit`",
            "did you mean `sqlite`",
            "`mail.relays` contains the text \"miror\"",
            "there is no transport named `unixx`",
            "did you mean `unix`",
            "/some/where, /else",
            DATA,
        ],
    );
    assert!(error.to_string().contains(&format!("{}:3: ", path.display())), "{error}");
    let lost = refused(load(&Place::new(), &[("FMAIL_STORE", "x"), ("FMAIL_PLUGIN__X__USE", "lost")], &[]), &[]);
    says(&lost, &["its section names the plugin `lost`, which is not found", "plugins were looked for in"]);
    refused(
        load(&Place::new(), &[("FMAIL_STORE", "x"), ("FMAIL_PLUGIN_PATH", "rel")], &[]),
        &["FMAIL_PLUGIN_PATH", "absolute"],
    );
}

#[test]
fn a_missing_plugin_that_a_later_source_hides_is_no_mistake() {
    let place = Place::new();
    place.write(USER, "mail.store = 'sqlite'\n");
    assert!(load(&place, &[], &[]).is_err());
    assert_eq!(load(&place, &[], &[("mail.store", "files")]).unwrap().mail.store, "files");
}

#[test]
fn no_plugin_directory_is_looked_at_for_built_in_names() {
    let place = Place::new();
    let closed = place.dir(DATA);
    // Whoever looked into it would have to tell that it cannot be: the place of a directory is taken by a loop of links.
    std::fs::remove_dir(&closed).unwrap();
    std::os::unix::fs::symlink(&closed, &closed).unwrap();
    assert!(load(&place, &[("FMAIL_STORE", "memory"), ("FMAIL_TRANSPORTS", "tcp")], &[]).is_ok());
    let error = load(&place, &[("FMAIL_STORE", "other")], &[]).unwrap_err();
    assert!(error.to_string().contains("cannot look for the plugin"), "{error}");
}

/// What a hostile project's file may try, and the key that is refused.
const HOSTILE: [(&str, &str); 8] = [
    ("[mail.plugin.x]\nfile = '/tmp/evil.so'\n", "`mail.plugin.x.file`"),
    ("[mail.plugin.x]\ncommand = ['/bin/sh', '-c', 'id']\n", "`mail.plugin.x.command`"),
    ("[mail.plugin.x]\nisolation = 'none'\n", "`mail.plugin.x.isolation`"),
    (
        "[mail.plugin.x]\nsha256 = '0000000000000000000000000000000000000000000000000000000000000000'\n",
        "`mail.plugin.x.sha256`",
    ),
    ("[mail.plugins]\npath = ['/tmp/plugins']\n", "`mail.plugins.path`"),
    ("[mail]\nstore = './evil.so'\n", "`mail.store`"),
    ("[mail]\nrelays = ['sh -c id']\n", "`mail.relays`"),
    ("[mail.nudge]\nbob = ['/bin/evil']\n", "`mail.nudge`"),
];

#[test]
fn a_strange_project_file_names_no_path_script_or_command() {
    for (text, key) in HOSTILE {
        let place = Place::new();
        let path = place.write(TOML, text);
        let error = refused(load(&place, &[], &[]), &[key, "fmail trust"]);
        assert!(error.to_string().contains(&format!("{}:", path.display())), "{error}");
    }
    let harmless = Place::new();
    harmless.write(TOML, "[mail.plugin.x]\nuse = 'y'\ntimeout = '2s'\nisolation = 'process'\nconfig = {a = 1}\n");
    assert_eq!(plugin(&load(&harmless, &[], &[]).unwrap(), "x").timeout, Duration::from_secs(2));
}

#[test]
fn trust_makes_it_count_until_the_file_changes() {
    let place = Place::new();
    let path = place.write(TOML, "[mail.plugin.x]\nfile = '/tmp/x.so'\n[mail.relay]\nenabled = true\n");
    let (environment, project) = (place.environment("app", &[]), place.project("app", &[]).unwrap());
    let review = || Review::of(&environment, &project).unwrap();
    assert_eq!(review().standing, Standing::Never);
    let asks: Vec<(String, usize)> = review().asks.into_iter().map(|ask| (ask.key, ask.line)).collect();
    assert_eq!(asks, [("mail.plugin.x.file".to_string(), 2), ("mail.relay.enabled".to_string(), 4)]);
    refused(load(&place, &[], &[]), &["`mail.plugin.x.file`"]);

    let noted = review().trust(&environment).unwrap();
    assert_eq!((noted.root, noted.sha256), (project.root.clone(), review().sha256));
    let settings = load(&place, &[], &[]).unwrap();
    assert_eq!(plugin(&settings, "x").file.as_deref(), Some(Path::new("/tmp/x.so")));
    assert!(settings.untrusted().is_empty());

    std::fs::write(&path, "[mail.plugin.x]\nfile = '/tmp/y.so'\n[mail.relay]\nenabled = true\n").unwrap();
    assert_eq!(review().standing, Standing::Changed);
    refused(load(&place, &[], &[]), &["`mail.plugin.x.file`", "has changed since", "`fmail trust` again"]);
    // Trust is given to a text, not to a moment: what was trusted counts again when it comes back.
    std::fs::write(&path, "[mail.plugin.x]\nfile = '/tmp/x.so'\n[mail.relay]\nenabled = true\n").unwrap();
    assert!(load(&place, &[], &[]).is_ok());

    assert!(TrustNotes::of(&environment).revoke(&project.root).unwrap());
    assert!(!TrustNotes::of(&environment).revoke(&project.root).unwrap());
    refused(load(&place, &[], &[]), &["`mail.plugin.x.file`", "fmail trust"]);
}

#[test]
fn trust_is_noted_for_the_owner_alone_and_not_believed_when_others_could_write_it() {
    let place = Place::new();
    let path = place.write(TOML, "mail.plugins.path = ['/opt/plugins']\n");
    let (environment, project) = (place.environment("app", &[]), place.project("app", &[]).unwrap());
    let review = Review::of(&environment, &project).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
    let error = review.trust(&environment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    says(&error, &["config.toml", "others can write", "0664", "chmod go-w"]);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    review.trust(&environment).unwrap();

    let notes = place.path("home/.local/state/fmail/trust");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let note = std::fs::read_dir(&notes).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&notes), mode(&note)), (0o700, 0o600));
    assert!(load(&place, &[], &[]).is_ok());
    std::fs::set_permissions(&note, std::fs::Permissions::from_mode(0o666)).unwrap();
    refused(load(&place, &[], &[]), &["not believed", "mode 0666", "`mail.plugins.path`"]);
}

#[test]
fn trust_in_one_project_is_no_trust_in_another_with_the_same_file() {
    let place = Place::new();
    let text = "mail.plugins.path = ['/opt/plugins']\n";
    place.write(TOML, text);
    place.write("copy/.fmail/config.toml", text);
    let environment = place.environment("app", &[]);
    Review::of(&environment, &place.project("app", &[]).unwrap()).unwrap().trust(&environment).unwrap();
    assert!(load(&place, &[], &[]).is_ok());
    let (copy, project) = (place.environment("copy", &[]), place.project("copy", &[]).unwrap());
    refused(Settings::load(&copy, Some(&project), &[]), &["`mail.plugins.path`", "fmail trust"]);
}

#[test]
fn a_name_that_a_stranger_chose_is_not_looked_for_inside_the_project() {
    let place = Place::new();
    program(&place, "app/plugins/fmail-plugin-evil");
    let inside = place.path("app/plugins").display().to_string();
    let vars = [("FMAIL_PLUGIN_PATH", inside.as_str())];
    // The user's own choice may be there; it is the user who named the directory.
    assert!(load(&place, &[vars[0], ("FMAIL_STORE", "evil")], &[]).is_ok());
    place.write(TOML, "mail.store = 'evil'\n");
    refused(load(&place, &vars, &[]), &["config.toml:1", "there is no store named `evil`"]);
    // Nor through a link in a place of the user's.
    place.dir(DATA);
    std::os::unix::fs::symlink(
        place.path("app/plugins/fmail-plugin-evil"),
        place.path(&format!("{DATA}/fmail-plugin-evil")),
    )
    .unwrap();
    refused(load(&place, &[], &[]), &["config.toml:1", "leads into the project", "fmail trust"]);
    let (environment, project) = (place.environment("app", &[]), place.project("app", &[]).unwrap());
    Review::of(&environment, &project).unwrap().trust(&environment).unwrap();
    assert!(load(&place, &vars, &[]).is_ok());
}

#[test]
fn a_broken_user_file_does_not_stand_in_the_way_of_trust() {
    let place = Place::new();
    place.write(USER, "garbage [\n");
    place.write(TOML, "mail.plugins.path = ['/opt/plugins']\n");
    let (environment, project) = (place.environment("app", &[]), place.project("app", &[]).unwrap());
    Review::of(&environment, &project).unwrap().trust(&environment).unwrap();
    let error = refused(load(&place, &[], &[]), &["not TOML"]);
    assert!(!error.to_string().contains("plugins.path"), "{error}");
    place.write(TOML, "garbage [\n");
    says(&Review::of(&environment, &project).unwrap_err(), &["config.toml:1", "not TOML"]);
}
