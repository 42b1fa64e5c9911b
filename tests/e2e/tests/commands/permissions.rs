//! Who may read what is written.

use fmail_e2e::Sandbox;

fn project(umask: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let script = format!(
        "umask {umask}; fmail send task open; fmail send @me closed; fmail status busy; fmail log > /dev/null; \
         printf broken > .fmail/topics/task/20260110-153000-0001.json; \
         touch -d '1 hour ago' .fmail/topics/task/20260110-153000-0001.json; \
         fmail quarantine isolate topics/task/20260110-153000-0001.json"
    );
    sandbox.bash("me", &script).ok();
    sandbox
}

#[test]
fn direct_messages_are_closed_and_topics_open() {
    let sandbox = project("022");
    let direct = format!(".fmail/dm/me/{}", sandbox.names(".fmail/dm/me")[0]);
    let topic = format!(".fmail/topics/task/{}", sandbox.names(".fmail/topics/task")[0]);
    for (path, mode) in [
        (".fmail", 0o755),
        (".fmail/topics", 0o755),
        (".fmail/topics/task", 0o755),
        (topic.as_str(), 0o644),
        (".fmail/dm", 0o700),
        (".fmail/dm/me", 0o700),
        (direct.as_str(), 0o600),
        (".fmail/agents", 0o755),
        (".fmail/agents/me.json", 0o644),
        (".fmail/project.json", 0o644),
        (".fmail/.gitignore", 0o644),
        (".fmail/lock", 0o600),
        (".fmail/index", 0o600),
        (".fmail/tmp", 0o700),
        (".fmail/quarantine", 0o700),
    ] {
        assert_eq!(format!("{:o}", sandbox.mode(path)), format!("{mode:o}"), "{path}");
    }
}

#[test]
fn no_umask_opens_what_must_be_closed() {
    let sandbox = project("000");
    let direct = format!(".fmail/dm/me/{}", sandbox.names(".fmail/dm/me")[0]);
    for (path, mode) in
        [(".fmail/dm", 0o700), (".fmail/dm/me", 0o700), (direct.as_str(), 0o600), (".fmail/lock", 0o600)]
    {
        assert_eq!(format!("{:o}", sandbox.mode(path)), format!("{mode:o}"), "{path}");
    }
    assert_eq!(sandbox.mode(".fmail") & 0o022, 0, "nobody else may write");
    assert_eq!(sandbox.mode(".fmail/topics/task") & 0o022, 0, "nobody else may write");
}

#[test]
fn a_strict_umask_is_respected_and_works() {
    let sandbox = project("077");
    assert_eq!(sandbox.mode(".fmail") & 0o077, 0);
    assert_eq!(sandbox.bodies("me", &[]), ["open", "closed"]);
}
