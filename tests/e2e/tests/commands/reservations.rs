//! `fmail reserve`, `release`, `renew`, `reservations`

use std::fs;
use std::path::Path;

use fmail_e2e::{Output, Running, Sandbox, eventually};
use serde_json::{Value, json};

fn held(sandbox: &Sandbox, args: &[&str]) -> Vec<Value> {
    let listed = sandbox.agent("me").args(["reservations", "--json"]).args(args).ok().json();
    listed.as_array().expect("an array").clone()
}

fn patterns(leases: &[Value]) -> Vec<&str> {
    leases.iter().map(|lease| lease["pattern"].as_str().expect("a pattern")).collect()
}

fn reserve(sandbox: &Sandbox, agent: &str, args: &[&str]) -> Output {
    sandbox.agent(agent).arg("reserve").args(args).run()
}

#[test]
fn a_reservation_is_granted_listed_renewed_and_given_back() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "the project is here");
    let granted = sandbox.agent("alice").args(["reserve", "src/auth/**", "Cargo.toml", "--exclusive"]);
    let granted = granted.args(["--ttl", "30m", "--reason", "new login"]).ok();
    let lines: Vec<&str> = granted.stdout.lines().collect();
    assert!(
        lines[0].starts_with("1 src/auth/** until 20") && lines[1].starts_with("2 Cargo.toml until 20"),
        "{granted}"
    );
    assert_eq!(granted.stderr, "");

    let table = sandbox.fmail().args(["reservations"]).ok().stdout;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["PATTERN", "ID", "AGENT", "MODE", "UNTIL", "REASON"]);
    assert_eq!(rows[1][..4], ["Cargo.toml", "2", "@alice", "exclusive"]);
    assert!(table.lines().nth(2).is_some_and(|row| row.ends_with("m left)    new login")), "{table}");

    let lease = &held(&sandbox, &["--path", "Cargo.toml"])[0];
    assert_eq!((&lease["agent"], &lease["exclusive"]), (&json!("alice"), &json!(true)));
    assert!(lease["host"].is_string() && lease["since"].is_string() && lease["until"].is_string(), "{lease}");
    let renewed = sandbox.agent("alice").args(["renew", "Cargo.toml", "--ttl", "2h", "--json"]).ok().json();
    assert!(renewed["changed"][0]["until"].as_str() > lease["until"].as_str(), "{renewed}");
    assert_eq!(renewed["skipped"], json!([]));
    assert!(sandbox.agent("alice").args(["renew", "--all"]).ok().stdout.starts_with("1 src/auth/** until "));
    assert!(sandbox.agent("alice").args(["renew", "--id", "2"]).ok().stdout.starts_with("2 Cargo.toml until "));

    assert_eq!(sandbox.agent("alice").args(["release", "src/auth/**"]).ok().stdout, "1 src/auth/**\n");
    let released = sandbox.agent("alice").args(["release", "--id", "2", "--json"]).ok().json();
    assert_eq!(released["changed"][0]["id"], 2);
    assert_eq!(held(&sandbox, &[]), [] as [Value; 0]);
    sandbox.agent("me").args(["reservations"]).ok().says(&["nothing is reserved"]);
}

#[test]
fn a_conflict_says_who_until_when_why_and_where_and_the_rest_is_granted() {
    let sandbox = Sandbox::new();
    sandbox.agent("alice").args(["reserve", "src/*", "--exclusive", "--reason", "auth\u{1b}[31m"]).ok();
    let answer = reserve(&sandbox, "bob", &["src/a*.rs", "docs"]);
    assert_eq!(answer.code, 8, "{answer}");
    assert!(answer.stdout.starts_with("2 docs until ") && answer.stdout.lines().count() == 1, "{answer}");
    answer.says(&["src/a*.rs is held by @alice (src/*, exclusive, until 20", "m left): auth", "both cover src/a"]);
    answer.says(&["1 of 2 patterns", "fmail send @NAME"]);
    assert!(!answer.stderr.contains('\u{1b}'), "{answer}");

    let answer = reserve(&sandbox, "bob", &["--json", "src/a*.rs", "lib"]);
    assert_eq!(answer.code, 8, "{answer}");
    let json = answer.json();
    assert_eq!(json["granted"][0]["pattern"], "lib");
    assert_eq!(json["conflicts"][0]["path"], "src/a*.rs");
    assert_eq!(json["conflicts"][0]["holders"][0]["agent"], "alice");
    assert!(json["conflicts"][0]["example"].as_str().is_some_and(|path| path.starts_with("src/a")), "{json}");
}

#[test]
fn shared_reservations_stand_beside_each_other_and_against_an_exclusive_one() {
    let sandbox = Sandbox::new();
    for agent in ["alice", "bob"] {
        sandbox.agent(agent).args(["reserve", "docs"]).ok();
    }
    let alone = reserve(&sandbox, "carol", &["docs/x.md", "--exclusive"]);
    assert_eq!((alone.code, alone.stdout.as_str()), (8, ""), "{alone}");
    alone.says(&["@alice (docs, shared", "@bob (docs, shared"]);
    assert_eq!(patterns(&held(&sandbox, &["--agent", "@bob"])), ["docs"]);
    let mine = sandbox.agent("bob").args(["reservations", "--mine", "--json"]).ok().json();
    assert_eq!(mine.as_array().map(Vec::len), Some(1));
}

#[test]
fn paths_are_relative_to_the_current_directory_and_kept_relative_to_the_root() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "the project is here");
    for directory in ["src/deep", "conf.d", "app/[id]"] {
        fs::create_dir_all(sandbox.path().join(directory)).expect("own directory");
    }
    let absolute = sandbox.path().join("lib/x.rs").display().to_string();
    for (cwd, text, kept) in [
        ("src", "a.rs", "src/a.rs"),
        ("src/deep", "../../docs/*.md", "docs/*.md"),
        ("src", "./b//c.rs", "src/b/c.rs"),
        ("src", "{x,y}/*.rs", "src/{x,y}/*.rs"),
        ("src/deep", ".", "src/deep"),
        ("src", "../conf.d", "conf.d/"),
        ("app/[id]", "page.tsx", "app/\\[id\\]/page.tsx"),
        ("src", &absolute, "lib/x.rs"),
        ("src", "..", "**"),
    ] {
        let granted =
            sandbox.agent("alice").args(["reserve", "--json", text]).cwd(sandbox.path().join(cwd)).ok().json();
        assert_eq!(granted["granted"][0]["pattern"], kept, "{text} in {cwd}");
        let released = sandbox.agent("alice").args(["release", text]).cwd(sandbox.path().join(cwd)).ok();
        assert!(released.stdout.trim_end().ends_with(kept), "{released}");
    }
    sandbox.agent("alice").args(["reserve", "conf.d", "--exclusive"]).ok();
    assert_eq!(reserve(&sandbox, "bob", &["conf.d/site.conf"]).code, 8, "a directory covers what is below it");
    let below = sandbox.agent("bob").args(["reservations", "--json", "--path", "site.conf"]);
    assert_eq!(
        patterns(below.cwd(sandbox.path().join("conf.d")).ok().json().as_array().expect("an array")),
        ["conf.d/"]
    );
}

#[test]
fn bad_input_is_refused_and_nothing_is_written() {
    let (empty, used) = (Sandbox::new(), Sandbox::new());
    used.agent("bob").args(["reserve", "bobs", "--exclusive"]).ok();
    let (long, many) = ("x".repeat(1001), (0..51).map(|number| format!("f{number}")).collect::<Vec<_>>());
    let many: Vec<&str> = ["reserve"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let deep = "a".repeat(1025);
    for sandbox in [&empty, &used] {
        let before = sandbox.tree();
        for (args, code, says) in [
            (&["reserve"][..], 2, &["PATH"][..]),
            (&["reserve", ""], 2, &["empty"]),
            (&["reserve", "../x"], 2, &["../x", "outside the project"]),
            (&["reserve", "ok", "/etc/passwd"], 2, &["/etc/passwd", "outside"]),
            (&["reserve", "a/*/../b"], 2, &[".."]),
            (&["reserve", "!a"], 2, &["`!`"]),
            (&["reserve", "a["], 2, &["a[", "\\["]),
            (&["reserve", &deep], 2, &["1025", "1024"]),
            (&many, 2, &["51", "50", "quotes"]),
            (&["reserve", "a", "--ttl", "0s"], 2, &["1 s to 7 days"]),
            (&["reserve", "a", "--ttl", "8d"], 2, &["691200", "7 days"]),
            (&["reserve", "a", "--ttl", "1500ms"], 2, &["1500ms", "whole"]),
            (&["reserve", "a", "--ttl", "5"], 2, &["`5`", "90s"]),
            (&["reserve", "a", "--reason", &long], 2, &["1001", "1000"]),
            (&["release"], 2, &["--id", "--all"]),
            (&["release", "a", "--all"], 2, &["--all"]),
            (&["release", "--id", "x"], 2, &["x"]),
            (&["release", "../x"], 2, &["outside"]),
            (&["renew"], 2, &["--id", "--all"]),
            (&["renew", "--all", "--ttl", "0s"], 2, &["1 s to 7 days"]),
            (&["renew", "--all"], 7, &["no reservation", "fmail reserve"]),
            (&["release", "never"], 7, &["never", "you do not hold it"]),
            (&["renew", "never"], 7, &["never", "you do not hold it"]),
            (&["release", "--id", "99"], 7, &["99", "never been"]),
            (&["reservations", "--agent", "a b"], 4, &["a b"]),
            (&["reservations", "--mine", "--agent", "a"], 2, &["--agent"]),
            (&["reservations", "--path", "../x"], 2, &["outside"]),
        ] {
            sandbox.agent("me").args(args).fails(code).says(says);
            sandbox.assert_unchanged(&before);
        }
        for args in [&["reserve", "a"][..], &["release", "--all"], &["renew", "--all"], &["reservations", "--mine"]] {
            sandbox.fmail().args(args).fails(4).says(&["FMAIL_AGENT"]);
        }
        sandbox.agent("me").args(["release", "--all"]).ok().says(&["no reservation"]);
        sandbox.agent("me").args(["reservations"]).ok();
        sandbox.assert_unchanged(&before);
    }
    for args in [&["release", "bobs"][..], &["renew", "bobs"], &["release", "--id", "1"], &["renew", "--id", "1"]] {
        used.agent("me").args(args).fails(7).says(&["held by @bob until 20", "1 of 1", "--mine"]);
    }
    assert_eq!(patterns(&held(&used, &[])), ["bobs"]);
}

#[test]
fn what_is_held_changes_beside_what_is_not() {
    let sandbox = Sandbox::new();
    sandbox.agent("alice").args(["reserve", "a", "b"]).ok();
    let renewed = sandbox.agent("alice").args(["renew", "a", "nothing"]).run();
    assert_eq!(renewed.code, 7, "{renewed}");
    assert!(renewed.stdout.starts_with("1 a until "), "{renewed}");
    let released = sandbox.agent("alice").args(["release", "--json", "nothing", "a"]).run();
    assert_eq!(released.code, 7, "{released}");
    assert_eq!(
        (&released.json()["changed"][0]["id"], &released.json()["skipped"][0]["named"]),
        (&json!(1), &json!("nothing"))
    );
    assert_eq!(patterns(&held(&sandbox, &[])), ["b"]);
}

#[test]
fn a_reservation_ends_by_itself() {
    let sandbox = Sandbox::new();
    sandbox.agent("alice").args(["reserve", "a", "--exclusive", "--ttl", "1s"]).ok();
    eventually(30, "the end of the reservation", || held(&sandbox, &[]).is_empty().then_some(()));
    sandbox.agent("alice").args(["renew", "a"]).fails(7).says(&["it ended at 20"]);
    let granted = sandbox.agent("bob").args(["reserve", "a", "--exclusive", "--json"]).ok().json();
    assert_eq!(granted["granted"][0]["id"], 2, "a number is never used again");
    sandbox.agent("alice").args(["release", "--id", "1"]).fails(7).says(&["has ended"]);
}

/// Fifty agents ask at once, each for one of the patterns; the agents that got it.
fn race(sandbox: &Sandbox, asked: &[&str]) -> Vec<String> {
    let racers: Vec<(String, Running)> = (0..50)
        .map(|number| {
            let agent = format!("racer-{number}");
            let args = ["reserve", "--exclusive", asked[number % asked.len()]];
            let running = sandbox.agent(&agent).args(args).spawn();
            (agent, running)
        })
        .collect();
    let won = |(agent, running): (String, Running)| {
        let output = running.wait();
        assert!(matches!(output.code, 0 | 8), "{agent}: {output}");
        assert_eq!(output.code == 0, !output.stdout.is_empty(), "{agent}: {output}");
        (output.code == 0).then_some(agent)
    };
    racers.into_iter().filter_map(won).collect()
}

#[test]
fn of_fifty_processes_that_race_for_overlapping_paths_one_wins_always() {
    let sandbox = Sandbox::new();
    let races = [&["src/a.rs"][..], &["src/*", "src/a*"], &["**/a.rs", "src", "{src,lib}/[a-c].rs"], &["src/a.rs"]];
    for (round, asked) in races.iter().enumerate() {
        let winners = race(&sandbox, asked);
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let leases = held(&sandbox, &[]);
        assert_eq!((leases.len(), &leases[0]["agent"]), (1, &json!(winners[0])), "{leases:?}");
        sandbox.agent(&winners[0]).args(["release", "--all"]).ok();
    }
}

#[test]
fn fifty_processes_that_are_not_in_each_others_way_all_win() {
    let sandbox = Sandbox::new();
    let racers: Vec<Running> = (0..50)
        .map(|number| {
            let path = format!("d{number}/x.rs");
            sandbox.agent(&format!("racer-{number}")).args(["reserve", "--exclusive", &path]).spawn()
        })
        .collect();
    racers.into_iter().for_each(|racer| assert_eq!(racer.wait().code, 0));
    let mut ids: Vec<u64> = held(&sandbox, &[]).iter().filter_map(|lease| lease["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=50).collect::<Vec<u64>>());
}

#[test]
fn the_record_is_kept_from_git_and_a_broken_one_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet"]);
    sandbox.agent("alice").args(["reserve", "a"]).ok();
    let status = sandbox.git(&["status", "--porcelain", "--untracked-files=all"]).stdout;
    assert!(!status.contains("leases"), "{status}");
    sandbox.write(".fmail/records/leases.json", "{\"leases\": 7}");
    for args in [&["reservations"][..], &["reserve", "b"], &["release", "--all"]] {
        sandbox.agent("alice").args(args).fails(13).says(&["leases"]);
    }
    assert_eq!(
        fs::read_to_string(sandbox.path().join(".fmail/records/leases.json")).expect("there"),
        "{\"leases\": 7}"
    );
}

/// The shell examples of docs/reservations.md, in their order.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reservations.md");
    let text = fs::read_to_string(path).expect("docs/reservations.md");
    text.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next()).map(String::from).collect()
}

#[test]
fn the_examples_of_the_documentation_run() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet"]);
    let outputs: Vec<Output> = documented().iter().map(|block| sandbox.bash("carol", block).ok()).collect();
    let [first, second, third, guard] = &outputs[..] else { panic!("{} blocks", outputs.len()) };
    assert!(first.stdout.contains("@alice") && first.stdout.contains("new login"), "{first}");
    second.says(&["src/auth/token.rs is held by @alice (src/auth/**, exclusive", "new login", "both cover"]);
    assert!(second.stdout.contains("docs until "), "{second}");
    assert!(third.stdout.ends_with("1 src/auth/**\n2 Cargo.toml\n"), "{third}");
    assert!(guard.stdout.starts_with("installed in "), "{guard}");
}
