//! `search`: the whole query language over any store.

use super::cases;
use crate::stage::Stage;

cases![
    words_phrases_beginnings_and_operators,
    columns_are_named,
    a_search_finds_what_the_agent_may_read,
    a_search_is_limited_and_tells_of_more,
    queries_that_cannot_be_are_refused,
];

fn filled(stage: &Stage) {
    stage.ok("build-bot", &["send", "ci", "nightly build failed", "-s", "Nightly report", "--tag", "red"]);
    stage.send("alice", "@bob", "the build is yours");
    stage.send("bob", "@carol", "a build between us");
    stage.send("bob", "@alice", "Build nightly yourself");
    stage.send("bob", "task", "{\"action\":\"deploy\",\"to\":[\"staging\"]}");
}

fn words_phrases_beginnings_and_operators(stage: &Stage) {
    filled(stage);
    for (query, count) in [
        ("build", 3),
        ("BUILD", 3),
        ("nightly build", 2),
        ("\"nightly build\"", 1),
        ("night*", 2),
        ("failed OR yours", 2),
        ("build NOT nightly", 1),
        ("(failed OR yours) AND build", 2),
        ("staging", 1),
        ("zebra", 0),
    ] {
        let found = stage.bodies("alice", &["search", query]);
        assert_eq!(found.len(), count, "{query}: {found:?}");
    }
    stage.ok("alice", &["search", "yours"]);
    stage.ok("alice", &["search", "zebra"]);
}

fn columns_are_named(stage: &Stage) {
    filled(stage);
    for (query, count) in
        [("from:build-bot", 1), ("subject:report", 1), ("tags:red", 1), ("body:report", 0), ("to:ci", 1)]
    {
        let found = stage.bodies("alice", &["search", query]);
        assert_eq!(found.len(), count, "{query}: {found:?}");
    }
}

fn a_search_finds_what_the_agent_may_read(stage: &Stage) {
    filled(stage);
    assert_eq!(stage.bodies("dave", &["search", "build"]), ["nightly build failed"]);
    assert_eq!(stage.bodies("carol", &["search", "between"]), ["a build between us"]);
}

fn a_search_is_limited_and_tells_of_more(stage: &Stage) {
    filled(stage);
    let some = stage.ok("alice", &["search", "build", "-n", "2", "--json"]);
    some.says(&["older messages match too", "newest 2"]);
    let first = some.json_lines()[0]["id"].as_str().expect("an id").to_string();
    assert_eq!(stage.bodies("alice", &["search", "build", "--since", &first]).len(), 1);
    assert_eq!(stage.bodies("alice", &["search", "build", "--since", "1h"]).len(), 3);
    assert_eq!(stage.bodies("alice", &["search", "build", "--since", "2100-01-01"]).len(), 0);
}

fn queries_that_cannot_be_are_refused(stage: &Stage) {
    filled(stage);
    for query in ["", "\"open", "(build", "AND build", "nosuch:build"] {
        stage.fails("alice", &["search", query], 2);
    }
    stage.fails("alice", &["search", "build", "--since", "later"], 2);
}
