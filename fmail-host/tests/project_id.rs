//! The project's id: which rule gives it, and that clones agree.

mod common;

use std::os::unix::fs::symlink;

use common::{Place, git, repository};
use fmail_api::{ErrorKind, ProjectIdSource, Timestamp, hex_sha256};

fn hashed(name: &str) -> String {
    format!("proj-{}", &hex_sha256(name.as_bytes())[..12])
}

#[track_caller]
fn check(place: &Place, cwd: &str, id: &str, source: ProjectIdSource) {
    assert_eq!(place.project(cwd, &[]).unwrap().id().unwrap(), (id.to_string(), source), "from {cwd}");
}

#[test]
fn the_directory_gives_the_id_when_nothing_else_does() {
    let place = Place::new();
    place.dir("app/.fmail");
    check(&place, "app/src", &hashed("app"), ProjectIdSource::Directory);
    repository(&place, "local");
    check(&place, "local", &hashed("local"), ProjectIdSource::Directory);
}

#[test]
fn ssh_and_https_clones_agree_and_so_do_worktrees() {
    let place = Place::new();
    let id = hashed("github.com/owner/repo");
    for (name, url) in [
        ("one", "git@github.com:owner/repo.git"),
        ("two", "https://token@GitHub.com/owner/repo"),
        ("three", "ssh://git@github.com:22/owner/repo.git"),
    ] {
        let repo = repository(&place, name);
        git(&repo, &["remote", "add", "upstream", "https://example.org/other"]);
        git(&repo, &["remote", "add", "origin", url]);
        git(&repo, &["worktree", "add", "-q", &place.path(&format!("{name}-tree")).display().to_string()]);
        check(&place, name, &id, ProjectIdSource::Remote);
        check(&place, &format!("{name}-tree"), &id, ProjectIdSource::Remote);
    }
    // A worktree that is a project of its own still has the repository's remote.
    place.dir("one-tree/.fmail");
    check(&place, "one-tree", &id, ProjectIdSource::Remote);
}

#[test]
fn a_submodule_has_its_own_remote() {
    let place = Place::new();
    let library = repository(&place, "library");
    let app = repository(&place, "app");
    git(&app, &["remote", "add", "origin", "https://example.org/app"]);
    git(&app, &["submodule", "--quiet", "add", library.to_str().unwrap(), "library"]);
    check(&place, "app/library", &hashed(library.to_str().unwrap()), ProjectIdSource::Remote);
}

#[test]
fn a_project_below_the_git_root_has_the_repositorys_remote() {
    let place = Place::new();
    let repo = repository(&place, "repo");
    git(&repo, &["remote", "add", "origin", "https://example.org/app"]);
    place.dir("repo/part/.fmail");
    check(&place, "repo/part", &hashed("example.org/app"), ProjectIdSource::Remote);
}

#[test]
fn the_recorded_id_stays() {
    let place = Place::new();
    let repo = repository(&place, "repo");
    git(&repo, &["remote", "add", "origin", "https://example.org/app"]);
    for (rule, source) in [
        (r#","id_from":"remote""#, ProjectIdSource::Remote),
        (r#","id_from":"init""#, ProjectIdSource::Init),
        (r#","id_from":"environment""#, ProjectIdSource::Environment),
        (r#","id_from":"some later rule""#, ProjectIdSource::Init),
        (r#","format":99,"more":[1]"#, ProjectIdSource::Init),
        ("", ProjectIdSource::Init),
    ] {
        let text = format!(r#"{{"id":"forge-abc123","created":"2026-01-10T15:00:00Z"{rule}}}"#);
        place.write("repo/.fmail/project.json", &text);
        check(&place, "repo", "forge-abc123", source);
    }
}

#[test]
fn an_id_from_the_directory_gives_way_when_a_remote_appears() {
    let place = Place::new();
    let repo = repository(&place, "repo");
    place.write("repo/.fmail/project.json", r#"{"id":"proj-old","id_from":"directory"}"#);
    check(&place, "repo", "proj-old", ProjectIdSource::Directory);
    git(&repo, &["remote", "add", "origin", "https://example.org/app"]);
    check(&place, "repo", &hashed("example.org/app"), ProjectIdSource::Remote);
}

#[test]
fn the_variable_wins_and_is_used_as_it_stands() {
    let place = Place::new();
    place.write("app/.fmail/project.json", r#"{"id":"recorded"}"#);
    let project = place.project("app", &[("FMAIL_PROJECT", "My Project/1")]).unwrap();
    assert_eq!(project.id().unwrap(), ("My Project/1".into(), ProjectIdSource::Environment));
}

#[test]
fn ids_that_nobody_can_use_are_refused() {
    let place = Place::new();
    let long = "x".repeat(201);
    for (wrong, what) in [("", "empty"), (" ", "empty"), ("a\nb", "control character"), (&long, "201 bytes")] {
        let error = place.project("app", &[("FMAIL_PROJECT", wrong)]).unwrap().id().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidProject);
        assert!(error.to_string().starts_with("FMAIL_PROJECT: ") && error.to_string().contains(what), "{error}");
        assert_eq!(fmail_host::Project::check_id(wrong).unwrap_err().kind(), ErrorKind::InvalidRequest);

        let text = format!(r#"{{"id":{}}}"#, serde_json::to_string(wrong).unwrap());
        place.write("other/.fmail/project.json", &text);
        let error = place.project("other", &[]).unwrap().id().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("project.json") && error.to_string().contains(what), "{error}");
    }
    let most = "x".repeat(200);
    assert_eq!(place.project("app", &[("FMAIL_PROJECT", &most)]).unwrap().id().unwrap().0, most);
}

#[test]
fn a_project_file_that_is_garbage_is_corrupt_and_named() {
    let place = Place::new();
    for garbage in ["", "{", "[]", "{}", r#"{"id":7}"#, "null", "\u{0}"] {
        let path = place.write("app/.fmail/project.json", garbage);
        let error = place.project("app", &[]).unwrap().id().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{garbage}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(error.help_text().is_some());
    }
}

#[test]
fn a_project_file_that_is_a_link_is_not_followed() {
    let place = Place::new();
    place.dir("app/.fmail");
    let secret = place.write("secret.json", r#"{"id":"secret"}"#);
    symlink(secret, place.path("app/.fmail/project.json")).unwrap();
    let error = place.project("app", &[]).unwrap().id().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("symbolic link"), "{error}");
}

#[test]
fn a_new_record_says_which_rule_gave_the_id() {
    let place = Place::new();
    let now = Timestamp::from_unix(1_768_059_000, 123_456);
    let record = place.project("app", &[]).unwrap().new_record(now).unwrap();
    assert_eq!(
        serde_json::to_string(&record).unwrap(),
        format!(r#"{{"id":"{}","created":"2026-01-10T15:30:00Z","id_from":"directory"}}"#, hashed("app"))
    );
    let record = place.project("app", &[("FMAIL_PROJECT", "p")]).unwrap().new_record(now).unwrap();
    assert_eq!((record.id.as_str(), record.id_from), ("p", Some(ProjectIdSource::Environment)));
    let repo = repository(&place, "repo");
    git(&repo, &["remote", "add", "origin", "git@example.org:app.git"]);
    let record = place.project("repo", &[]).unwrap().new_record(now).unwrap();
    assert_eq!((record.id, record.id_from), (hashed("example.org/app"), Some(ProjectIdSource::Remote)));
    assert!(!place.path("app/.fmail").exists());
}
