//! Every scenario, with the power cut at every moment.

use crate::explore::{Effort, play};
use crate::scenarios::SCENARIOS;

fn survives(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    let effort = Effort::usual();
    match play(scenario, None, effort) {
        Ok(states) => println!("{name}: {states} states\ntorture power/cuts seed={} states={states}", effort.seed),
        Err(failure) => panic!("{failure}"),
    }
}

macro_rules! survives {
    ($($test:ident: $name:literal;)*) => { $(#[test] fn $test() { survives($name); })* };
}

survives! {
    the_first_message_of_a_project_survives: "the first message of a project";
    single_appends_survive: "single appends";
    new_topics_and_mailboxes_survive: "new topics and mailboxes";
    messages_into_a_clone_survive: "a clone, which has no empty directories";
    messages_to_several_recipients_survive_in_each_mailbox: "several recipients";
    keys_are_remembered: "keys";
    a_group_of_one_survives: "a group of one";
    groups_of_two_survive: "groups of two";
    a_group_of_sixteen_survives: "a group of sixteen";
    imports_and_relocations_survive: "imports and relocations";
    durable_records_survive: "records";
    what_is_not_removed_survives_a_removal: "removals";
    a_rebuild_of_the_index_loses_nothing: "an index that is gone";
    a_group_of_one_survives_in_the_journal: "a group of one through the journal";
    groups_of_two_survive_in_the_journal: "groups of two through the journal";
    a_group_of_sixteen_survives_in_the_journal: "a group of sixteen through the journal";
    a_journal_that_is_used_again_loses_nothing: "a journal that is full";
    a_journal_that_is_emptied_at_once_loses_nothing: "a journal that is emptied at once";
    a_journal_that_is_emptied_beside_the_appends_loses_nothing: "a journal that is emptied beside";
    a_journal_that_is_emptied_beside_the_appends_at_once_loses_nothing: "a journal that is emptied beside, at once";
    a_checkpoint_loses_nothing: "a checkpoint in between";
    commands_beside_a_journal_lose_nothing: "commands beside a journal";
    removals_beside_a_journal_lose_nothing_else: "removals beside a journal";
    imports_survive_in_the_journal: "imports through the journal";
}

#[test]
fn every_scenario_is_played() {
    let played = include_str!("survives.rs");
    for scenario in &SCENARIOS {
        assert!(played.contains(&format!(": \"{}\";", scenario.name)), "{} is not played", scenario.name);
    }
}
