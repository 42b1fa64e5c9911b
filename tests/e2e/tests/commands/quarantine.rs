//! `fmail quarantine`

use fmail_e2e::Sandbox;

const PLACE: &str = "topics/task/20260110-153000-0001.json";

fn with_a_broken_file() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "whole");
    sandbox.write(format!(".fmail/{PLACE}"), "{ not json");
    sandbox.bash("me", &format!("touch -d '1 hour ago' .fmail/{PLACE}")).ok();
    sandbox
}

#[test]
fn a_broken_file_is_listed_isolated_restored_and_removed() {
    let sandbox = with_a_broken_file();
    let quarantine = |args: &[&str]| sandbox.agent("me").arg("quarantine").args(args).ok();
    let list = quarantine(&["list", "--json"]).json();
    assert_eq!((&list["broken"][0]["place"], list["held"].as_array().map(Vec::len)), (&PLACE.into(), Some(0)));
    assert!(quarantine(&["list"]).stdout.starts_with(&format!("broken {PLACE}: ")));

    let name = quarantine(&["isolate", PLACE]).stdout.trim_end().to_string();
    assert!(!sandbox.store().join(PLACE).exists());
    let list = quarantine(&["list", "--json"]).json();
    assert_eq!((list["broken"].as_array().map(Vec::len), &list["held"][0]["name"]), (Some(0), &name.as_str().into()));
    assert_eq!(list["held"][0]["place"], PLACE);
    assert_eq!(sandbox.agent("me").args(["log"]).ok().stderr, "");

    assert_eq!(quarantine(&["restore", &name]).stdout, format!("{PLACE}\n"));
    assert_eq!(std::fs::read_to_string(sandbox.store().join(PLACE)).expect("restored"), "{ not json");
    quarantine(&["isolate", &format!(".fmail/{PLACE}")]);
    quarantine(&["remove", PLACE]);
    assert!(sandbox.names(".fmail/quarantine").is_empty());
    quarantine(&["list"]).says(&["nothing is broken"]);
}

#[test]
fn a_repaired_file_comes_back_as_a_message() {
    let sandbox = with_a_broken_file();
    let name = sandbox.agent("me").args(["quarantine", "isolate", PLACE]).ok().stdout.trim_end().to_string();
    sandbox.write(
        format!(".fmail/quarantine/{name}"),
        r#"{"id":"20260110-153000-0001","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"repaired"}"#,
    );
    sandbox.agent("me").args(["quarantine", "restore", &name]).ok();
    assert_eq!(sandbox.bodies("me", &[]), ["repaired", "whole"]);
}

#[test]
fn what_is_not_broken_or_not_ours_stays() {
    let sandbox = with_a_broken_file();
    let whole = format!("topics/task/{}", sandbox.names(".fmail/topics/task")[1]);
    let before = sandbox.tree();
    let isolate = |place: &str, code| sandbox.agent("me").args(["quarantine", "isolate", place]).fails(code);
    isolate(&whole, 2).says(&["not broken"]);
    isolate("topics/task/none.json", 7);
    for place in ["project.json", "../outside", "topics/../../x", "topics/task/../x.json", "/etc/passwd", ""] {
        isolate(place, 2);
    }
    sandbox.agent("me").args(["quarantine", "restore", "none"]).fails(7);
    sandbox.agent("me").args(["quarantine", "remove", "../project.json"]).fails(7);
    sandbox.agent("me").args(["quarantine"]).fails(2);
    sandbox.assert_unchanged(&before);
}

#[test]
fn restore_does_not_replace_what_stands_there_now() {
    let sandbox = with_a_broken_file();
    let name = sandbox.agent("me").args(["quarantine", "isolate", PLACE]).ok().stdout.trim_end().to_string();
    sandbox.write(format!(".fmail/{PLACE}"), "something else");
    sandbox.agent("me").args(["quarantine", "restore", &name]).fails(8);
    assert_eq!(std::fs::read_to_string(sandbox.store().join(PLACE)).expect("there"), "something else");
    assert_eq!(sandbox.names(".fmail/quarantine"), [name]);
}
