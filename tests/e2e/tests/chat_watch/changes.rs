//! What can happen to the file, each with the tools that do it.

use super::{Team, at, next};

/// A watch that has seen three lines, in a file that it watches from its start.
fn seen_three() -> (Team, fmail_e2e::Running) {
    let team = Team::with("# Chat\n[a-to-b]: one\n[a-to-b]: two\n");
    let mut watch = team.watch(&["--from-start"]);
    assert_eq!(next(&mut watch), at(2, "one"));
    assert_eq!(next(&mut watch), at(3, "two"));
    team.bash("echo '[a-to-b]: three' >> chat.md");
    assert_eq!(next(&mut watch), at(4, "three"));
    (team, watch)
}

/// Changes the file, then expects these messages, and that the watch still sees what is appended.
#[track_caller]
fn after(script: &str, expected: &[(u64, &str)], further: u64) {
    let (team, mut watch) = seen_three();
    team.bash(script);
    for (number, text) in expected {
        assert_eq!(next(&mut watch), at(*number, text), "{script}");
    }
    team.bash("echo '[a-to-b]: further' >> chat.md");
    assert_eq!(next(&mut watch), at(further, "further"), "{script}");
}

#[test]
fn truncated() {
    after(": > chat.md", &[], 1);
    after(": > chat.md; echo '[a-to-b]: new' >> chat.md", &[(1, "new")], 2);
    after("truncate -s 0 chat.md; printf '# new\\n[a-to-b]: new\\n' >> chat.md", &[(2, "new")], 3);
}

#[test]
fn overwritten() {
    after("echo '[a-to-b]: new' > chat.md", &[(1, "new")], 2);
    after(
        "printf '[x-to-y]: %0100d\\n' 1 2 3 > chat.md.x; cat chat.md.x > chat.md; sync",
        &[(1, &format!("{:0100}", 1)), (2, &format!("{:0100}", 2)), (3, &format!("{:0100}", 3))],
        4,
    );
}

#[test]
fn copied_and_truncated() {
    after("mkdir memory; cp chat.md memory/1.md; : > chat.md; echo '[a-to-b]: new' >> chat.md", &[(1, "new")], 2);
}

#[test]
fn archived_by_mv() {
    after("mkdir memory; mv chat.md memory/1.md", &[], 1);
    after("mkdir memory; mv chat.md memory/1.md; echo '[a-to-b]: new' > chat.md", &[(1, "new")], 2);
    after(
        "mkdir memory; echo '[a-to-b]: late' >> chat.md; mv chat.md memory/1.md; echo '[a-to-b]: new' > chat.md",
        &[(5, "late"), (1, "new")],
        2,
    );
}

#[test]
fn rotated_many_times() {
    let (team, mut watch) = seen_three();
    for round in 0..20 {
        team.bash(&format!(
            "echo '[a-to-b]: end {round}' >> chat.md; mv chat.md {round}.md; echo '[a-to-b]: start {round}' > chat.md"
        ));
        assert_eq!(next(&mut watch).1, format!("end {round}"));
        assert_eq!(next(&mut watch), at(1, &format!("start {round}")));
    }
}

#[test]
fn old_messages_are_archived_and_the_last_ones_stay() {
    after("mkdir memory; head -n 2 chat.md > memory/1.md; tail -n 2 chat.md > new; mv new chat.md", &[], 3);
    after("tail -n 1 chat.md > new; echo '[a-to-b]: new' >> new; mv new chat.md", &[(2, "new")], 3);
}

#[test]
fn deleted_and_made_again() {
    after("rm chat.md", &[], 1);
    after("rm chat.md; echo '[a-to-b]: new' > chat.md", &[(1, "new")], 2);
    after("cd ..; rm -r .workplace; mkdir .workplace; echo '[a-to-b]: new' > .workplace/chat.md", &[(1, "new")], 2);
    after("cd ..; mv .workplace old; mkdir .workplace; echo '[a-to-b]: new' > .workplace/chat.md", &[(1, "new")], 2);
}

#[test]
fn replaced_by_editors() {
    // With a temporary file and a rename, as `sed -i` and most editors do.
    after("sed -i 's/# Chat/# The chat/' chat.md", &[], 5);
    after("cp chat.md new; echo '[a-to-b]: new' >> new; mv new chat.md", &[(5, "new")], 6);
    after("sed -i '1i # A line above' chat.md; echo '[a-to-b]: new' >> chat.md", &[(6, "new")], 7);
    // With a backup, as vim and emacs do.
    after(
        "cp chat.md text; echo '[a-to-b]: new' >> text; mv chat.md chat.md~; cat text > chat.md; rm chat.md~",
        &[(5, "new")],
        6,
    );
    // In place.
    after("cp chat.md text; echo '[a-to-b]: new' >> text; cat text > chat.md", &[(5, "new")], 6);
    // The last message corrected: it is a new one then, and those before it are not.
    after("sed -i 's/three/THREE/' chat.md", &[(4, "THREE")], 5);
}

#[test]
fn saved_by_vim_if_there_is_one() {
    let installed = std::process::Command::new("vim").arg("--version").output().is_ok_and(|out| out.status.success());
    if installed {
        after("vim -u NONE -es -c 'normal Go[a-to-b]: new' -c wq chat.md", &[(5, "new")], 6);
    } else {
        println!("vim is not installed");
    }
}

#[test]
fn not_there_yet() {
    let team = Team::new();
    let mut watch = team.watch(&[]);
    let told = watch.stderr_line();
    assert!(told.ends_with(".workplace/chat.md does not exist; waiting for it"), "{told}");
    team.sandbox.bash("shell", "mkdir .workplace; echo '[a-to-b]: first' >> .workplace/chat.md").ok();
    assert_eq!(next(&mut watch), at(1, "first"));
}

#[test]
fn a_file_that_is_shorter_than_the_line_to_go_on_from_is_read_from_its_start() {
    let team = Team::with("[a-to-b]: one\n");
    let mut watch = team.watch(&["--since-line", "100"]);
    assert_eq!(next(&mut watch), at(1, "one"));
    let told = watch.stderr_line();
    assert!(told.contains("has no line 100, its last is line 1"), "{told}");
}
