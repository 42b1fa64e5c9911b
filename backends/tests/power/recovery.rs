//! The power goes again while the store recovers from the first cut.

use std::sync::Arc;

use crate::account::Account;
use crate::check::open;
use crate::common::{Project, scan};
use crate::explore::{Effort, clock, explore, is_full, states};
use crate::rebooted::{Belief, Rebooted};
use crate::scenarios::{SCENARIOS, note};
use crate::stage::Stage;
use fmail_api::{Query, Store};
use futures::executor::block_on;

/// Cuts the power, lets somebody look and somebody send, and cuts it again at every moment of that.
fn survives_twice(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    let stage = Stage::on(Project::in_memory(), clock(), 1, None);
    (scenario.play)(&stage);
    let effort = Effort::full_or(40, 6);
    // Of the states behind the first cut, so that fewer of them are also farther apart.
    let (every, mut checked) = (if is_full() { 5.max(200 / effort.most) } else { 37 }, 0);
    let first = states(&stage.recorder.recording(), Account::default(), effort);
    for (number, (image, account)) in first.into_iter().enumerate().filter(|(number, _)| number % every == 0) {
        let project = Project::in_memory();
        image.write_to(project.root());
        let again = Stage::on(project, stage.clock.clone(), 2, None);
        if number % 2 == 0 {
            drop(block_on(again.process().scan(Query::default())));
        }
        again.send(note("zoe", "task", "sent in between"));
        let found = explore(&again.recorder.recording(), account, &stage.clock, effort);
        checked += found.unwrap_or_else(|failure| {
            panic!("{name}, second power cut: {failure}\nbehind the first one there was:\n{}", image.describe())
        });
    }
    println!("{name}, cut twice: {checked} states\ntorture power/twice seed={} states={checked}", effort.seed);
    assert!(checked > 0);
}

/// The clock stands still, and so the next id would be that of the message that is gone.
#[test]
fn an_id_that_a_power_cut_has_taken_back_is_not_given_again() {
    let (project, clock) = (Project::in_memory(), clock());
    let send = |boot: u8, from: &str| {
        let store = open(project.root(), Arc::new(Rebooted(boot, Belief::default())), &clock);
        block_on(store.append(note(from, "task", from))).unwrap().message.id
    };
    send(1, "alice");
    let lost = send(1, "carol");
    std::fs::remove_file(project.path(&format!("topics/task/{lost}.json"))).unwrap();
    let index = std::fs::read(project.path("index")).unwrap();
    assert!(send(2, "dave") > lost);
    // The new index was not synced either: the old one is back, and tells of carol.
    std::fs::write(project.path("index"), index).unwrap();
    let store = open(project.root(), Arc::new(Rebooted(3, Belief::default())), &clock);
    let from_dave = Query { from: Some("dave".parse().unwrap()), ..Query::default() };
    assert_eq!(scan(&store, from_dave).len(), 1);
}

#[test]
fn a_power_cut_while_recovering_from_one_loses_nothing() {
    for name in ["single appends", "several recipients", "keys", "groups of two", "imports and relocations"] {
        survives_twice(name);
    }
}

#[test]
fn a_power_cut_during_a_replay_loses_nothing() {
    for name in ["groups of two through the journal", "a journal that is full", "a journal that is emptied at once"] {
        survives_twice(name);
    }
}
