//! `fmail chat archive`.

use std::fs;

use fmail_e2e::{Sandbox, full};

use crate::{by_hand, chat_file, chat_project, ids, text};

/// Every line of the archives, in the order of their names.
fn archived(sandbox: &Sandbox) -> Vec<String> {
    let Ok(list) = fs::read_dir(sandbox.path().join(".workplace/memory")) else { return Vec::new() };
    let mut paths: Vec<_> = list.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(Into::into).collect::<Vec<String>>())
        .collect()
}

#[test]
fn old_messages_go_with_what_stands_below_them_and_ids_stay() {
    let sandbox = chat_project();
    by_hand(
        &sandbox,
        "# Chat\n\n[a-to-b]: one\n  more\na comment\n[a-to-b]: two\n\n[a-to-b]: three\n[a-to-b]: two\n[a-to-b]: open",
    );
    by_hand(&sandbox, "\n");
    let before = ids(&sandbox.log("b", &[]));
    let dry = sandbox.fmail().args(["chat", "archive", "--keep", "3", "--dry-run", "--json"]).ok().json();
    assert_eq!((dry["moved"].as_u64(), dry["kept"].as_u64()), (Some(2), Some(3)));
    assert!(archived(&sandbox).is_empty());
    let done = sandbox.fmail().args(["chat", "archive", "--keep", "3", "--json"]).ok().json();
    assert_eq!((done["moved"].as_u64(), done["kept"].as_u64()), (Some(2), Some(3)));
    assert_eq!(text(&sandbox), "# Chat\n\n[a-to-b]: three\n[a-to-b]: two\n[a-to-b]: open\n");
    assert_eq!(archived(&sandbox), ["[a-to-b]: one", "  more", "a comment", "[a-to-b]: two", ""]);
    assert_eq!(ids(&sandbox.log("b", &[])), before[2..], "what stays keeps its id, also beside an equal line");
    sandbox.fmail().args(["chat", "archive", "--keep", "3"]).ok().says(&["nothing to move"]);
    sandbox.fmail().args(["chat", "archive", "--before", "now", "--dry-run"]).ok().says(&["would move"]);
    sandbox.fmail().args(["chat", "archive", "--before", "1d"]).ok().says(&["nothing to move"]);
    sandbox.fmail().args(["chat", "archive", "nowhere.md"]).fails(7);
}

#[test]
fn shell_loops_lose_nothing_while_the_file_is_archived() {
    let sandbox = chat_project();
    let each = if full() { 500 } else { 60 };
    by_hand(&sandbox, "# Chat\n");
    let loops: Vec<_> = (0..5)
        .map(|number| {
            let script = format!(
                "for n in $(seq {each}); do echo \"[loop{number}-to-b]: {number} {n}\" >> .workplace/chat.md; sleep 0.01; done",
                n = "$n"
            );
            sandbox.bash("nobody", &script).spawn()
        })
        .collect();
    let mut rounds = 0;
    let mut running = loops;
    while !running.is_empty() {
        running.retain_mut(|running| !running.has_ended());
        sandbox.send("sender", "@b", &format!("round {rounds}"));
        sandbox.fmail().args(["chat", "archive", "--keep", "5"]).ok();
        rounds += 1;
    }
    let mut expected: Vec<String> = (0..rounds).map(|round| format!("[sender-to-b]: round {round}")).collect();
    for number in 0..5 {
        expected.extend((1..=each).map(|n| format!("[loop{number}-to-b]: {number} {n}")));
    }
    expected.sort();
    let mut found = archived(&sandbox);
    found.extend(text(&sandbox).lines().skip(1).map(Into::into));
    found.sort();
    assert_eq!(found, expected, "each line is in the file or in one archive, once");
    assert!(rounds > 1);
    assert_eq!(sandbox.names(".workplace").iter().filter(|name| name.contains("archiving")).count(), 0);
}

#[test]
fn a_process_that_keeps_the_file_open_is_named_and_nothing_is_moved() {
    let sandbox = chat_project();
    by_hand(&sandbox, "[a-to-b]: one\n[a-to-b]: two\n");
    let mut keeper =
        sandbox.bash("nobody", "exec 3>> .workplace/chat.md; echo ready; read -r _ < <(sleep 600)").spawn();
    keeper.line();
    let refused = sandbox.fmail().args(["chat", "archive", "--keep", "0"]).fails(12);
    refused.says(&["kept open for writing by process"]);
    assert_eq!(text(&sandbox).lines().count(), 2);
    drop(keeper);
    sandbox.fmail().args(["chat", "archive", "--keep", "0"]).ok();
    assert_eq!(text(&sandbox), "");
    assert!(chat_file(&sandbox).exists());
}
