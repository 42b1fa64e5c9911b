//! From the name of a store to an open one.

mod common;

use std::sync::{Arc, Mutex};

use common::Place;
use fmail_api::{Clock, Draft, ErrorKind, ProjectRecord, Reporter, Result, Store};
use fmail_host::{Route, Serving, Settings, SystemClock, open_store};
use futures::executor::block_on;

fn silent() -> Reporter {
    Arc::new(|_| {})
}

/// Opens what these variables configure, for the project `app`.
fn open(place: &Place, vars: &[(&str, &str)], serving: Serving) -> Result<Arc<dyn Store>> {
    let environment = place.environment("app", vars);
    let project = place.project("app", vars)?;
    open_store(&project, &Settings::load(&environment, Some(&project), &[])?, silent(), serving)
}

fn draft(body: &str) -> Draft {
    Draft::new("bob".parse().unwrap(), "task".parse().unwrap(), body)
}

#[test]
fn opening_creates_nothing_and_the_first_message_records_the_project() {
    let place = Place::new();
    let environment = place.environment("app", &[("FMAIL_PROJECT", "shared")]);
    let project = fmail_host::Project::discover(&environment).unwrap();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&notices);
    let reporter: Reporter = Arc::new(move |notice| seen.lock().unwrap().push(notice.text));
    let store = open_store(&project, &Settings::default(), reporter, Serving::Cli).unwrap();
    assert_eq!(store.capabilities().name, "files");
    assert!(!project.fmail_dir().exists());

    block_on(store.append(draft("hello"))).unwrap();
    let text = std::fs::read_to_string(project.fmail_dir().join("project.json")).unwrap();
    let record: ProjectRecord = serde_json::from_str(&text).unwrap();
    let (id, source) = project.id().unwrap();
    assert_eq!((record.id, record.id_from), (id, Some(source)));
    assert!(!notices.lock().unwrap().is_empty(), "the creation of the project is told");
}

#[test]
fn the_settings_reach_the_store() {
    let place = Place::new();
    let vars = [("FMAIL_MAX_MESSAGE_BYTES", "256"), ("FMAIL_DURABILITY", "os"), ("FMAIL_WATCH__EVENTS", "false")];
    let store = open(&place, &vars, Serving::Cli).unwrap();
    assert_eq!(store.capabilities().max_message_bytes, 256);
    let error = block_on(store.append(draft(&"x".repeat(300)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(block_on(store.append(draft("short"))).is_ok());
}

#[test]
fn a_store_that_ends_with_the_process_is_refused_for_commands() {
    let place = Place::new();
    let vars = [("FMAIL_STORE", "memory")];
    let error = open(&place, &vars, Serving::Cli).err().expect("a command may not use it");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    for part in ["mail.store (FMAIL_STORE)", "`memory`", "lose the message"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(error.help_text().unwrap().contains("files"));
    let store = open(&place, &vars, Serving::Daemon).unwrap();
    assert!(!store.capabilities().shared);
}

#[test]
fn names_that_no_store_has_are_refused_however_they_came() {
    let place = Place::new();
    let project = place.project("app", &[]).unwrap();
    for (name, help) in [("file", "`files`"), ("postgres", "`memory`"), ("exec", "`files`"), ("beadmail", "`files`")] {
        let mut settings = Settings::default();
        settings.mail.store = name.into();
        let error = open_store(&project, &settings, silent(), Serving::Daemon).err().expect("there is no such store");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.help_text().unwrap().contains(help), "{error:?}");
    }
}

#[test]
fn the_route_of_a_built_in_store_is_what_the_store_says_of_itself() {
    let place = Place::new();
    for (name, route) in [("files", Route::Direct), ("memory", Route::Daemon)] {
        let vars = [("FMAIL_STORE", name)];
        let shared = open(&place, &vars, Serving::Daemon).unwrap().capabilities().shared;
        assert_eq!(shared, route == Route::Direct, "{name}");
        assert_eq!(Settings::load(&place.environment("app", &vars), None, &[]).unwrap().route(), route);
    }
    let mut settings = Settings::default();
    settings.mail.store = "of-somebody-else".into();
    assert_eq!(settings.route(), Route::DaemonFirst);
}

#[test]
fn a_refusal_names_the_daemon_to_start() {
    let place = Place::new();
    let error = open(&place, &[("FMAIL_STORE", "memory")], Serving::Cli).err().unwrap();
    assert!(error.help_text().unwrap().contains("start `forged` in "), "{error:?}");
    let vars = [("FMAIL_STORE", "memory"), ("FMAIL_TRANSPORTS", "")];
    let error = open(&place, &vars, Serving::Cli).err().unwrap();
    assert!(error.to_string().contains("mail.transports"), "{error:?}");
}

#[test]
fn the_record_of_a_project_is_written_once_unless_it_is_replaced() {
    let place = Place::new();
    let project = place.project("app", &[("FMAIL_PROJECT", "one")]).unwrap();
    assert!(!project.has_record() && project.record().unwrap().is_none());
    let record = project.new_record(SystemClock.now()).unwrap();
    project.write_record(&record, false).unwrap();
    let other = ProjectRecord { id: "two".into(), ..record.clone() };
    assert_eq!(project.write_record(&other, false).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(project.record().unwrap(), Some(record));
    project.write_record(&other, true).unwrap();
    assert_eq!(project.record().unwrap(), Some(other));
    let left: Vec<_> =
        std::fs::read_dir(project.fmail_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["project.json"]);
}
