//! Stores that lack one sync. Each has to be caught: a harness that finds nothing wrong there finds nothing.

use std::collections::BTreeSet;

use crate::common::Project;
use crate::explore::{Effort, clock, play, play_believing};
use crate::killed::{SUCCESSIONS, Succession};
use crate::scenarios::SCENARIOS;
use crate::sites::Site;
use crate::stage::Stage;

/// A scenario in which the store without this sync breaks a promise.
fn caught(site: Site, scenario: &str, breaks: &str) {
    let scenario = SCENARIOS.iter().find(|known| known.name == scenario).unwrap();
    let failure = play(scenario, Some(site), Effort::of(24)).expect_err("the missing sync was not noticed");
    let reason = failure.lines().next().unwrap_or_default();
    println!("{site:?}: {reason}");
    assert!(breaks.split('|').any(|breaks| failure.contains(breaks)), "caught for another reason: {failure}");
}

fn succession(name: &str) -> &'static Succession {
    SUCCESSIONS.iter().find(|known| known.name == name).unwrap()
}

/// The same behind a kill.
fn caught_behind_a_kill(site: Site, name: &str, breaks: &str) {
    let failure = succession(name).explore(Some(site)).expect_err("the missing sync was not noticed");
    println!("{site:?}: {}", failure.lines().next().unwrap_or_default());
    assert!(failure.contains(breaks), "caught for another reason: {failure}");
}

#[test]
fn without_the_sync_of_a_message_s_content() {
    caught(Site::Message, "single appends", "skipped .fmail/");
    caught(Site::Message, "groups of two", "skipped .fmail/");
    caught(Site::Message, "imports and relocations", "skipped .fmail/");
}

#[test]
fn without_the_sync_of_a_mailbox() {
    caught(Site::Mailbox, "single appends", "is lost");
    caught(Site::Mailbox, "several recipients", "is lost");
    caught(Site::Mailbox, "a group of sixteen", "is lost");
    caught(Site::Mailbox, "imports and relocations", "is lost");
}

#[test]
fn without_the_sync_of_a_mailbox_whose_message_is_sent_again() {
    caught_behind_a_kill(Site::Repeat, "a key", "is lost");
    caught_behind_a_kill(Site::Repeat, "an import", "is lost");
}

#[test]
fn without_the_sync_of_a_new_mailbox_s_name() {
    caught(Site::NewMailbox, "new topics and mailboxes", "is lost");
}

#[test]
fn without_the_sync_of_the_parent_of_mailboxes() {
    caught(Site::Parent, "a clone, which has no empty directories", "is lost");
}

#[test]
fn without_the_sync_of_the_project_s_own_directory() {
    caught(Site::Top, "the first message of a project", "is lost");
}

#[test]
fn without_the_sync_of_a_new_project_file() {
    caught(Site::Project, "the first message of a project", "the record project is");
}

#[test]
fn without_the_sync_of_what_git_ignores() {
    caught(Site::Ignored, "the first message of a project", ".gitignore is");
}

#[test]
fn without_the_sync_of_a_record_s_content() {
    caught(Site::Record, "records", "is not JSON");
}

#[test]
fn without_the_sync_of_a_record_s_name() {
    caught(Site::RecordName, "records", "the record");
}

#[test]
fn without_the_sync_of_a_record_s_removal() {
    caught(Site::RecordRemoval, "records", "the record agents/alice is Some");
}

#[test]
fn without_the_sync_of_a_new_directory_of_records() {
    caught(Site::NewRecords, "records", "the record");
}

#[test]
fn without_the_sync_of_what_a_dead_process_made() {
    caught_behind_a_kill(Site::OfTheDead, "a new topic", "is lost");
    caught_behind_a_kill(Site::OfTheDead, "a new project", "is lost");
    caught_behind_a_kill(Site::OfTheDead, "a new directory of records", "the record");
}

#[test]
fn without_the_sync_of_the_journal() {
    caught(Site::Journal, "a group of one through the journal", "is lost|skipped .fmail/");
    caught(Site::Journal, "groups of two through the journal", "is lost|skipped .fmail/");
    caught(Site::Journal, "a group of sixteen through the journal", "is lost|skipped .fmail/");
}

#[test]
fn without_the_sync_of_a_message_that_leaves_the_journal() {
    caught(Site::Safe, "a journal that is full", "skipped .fmail/");
    caught(Site::Safe, "a journal that is emptied beside", "skipped .fmail/");
    caught(Site::Safe, "a checkpoint in between", "skipped .fmail/");
}

#[test]
fn without_the_sync_of_the_mailbox_of_a_message_that_leaves_the_journal() {
    caught(Site::SafeName, "a journal that is full", "is lost");
    caught(Site::SafeName, "a journal that is emptied beside", "is lost");
    caught(Site::SafeName, "a checkpoint in between", "is lost");
}

#[test]
fn without_the_sync_of_everything_that_leaves_the_journal() {
    caught(Site::Everything, "a journal that is emptied at once", "is lost|skipped .fmail/");
    caught(Site::Everything, "a journal that is emptied beside, at once", "is lost|skipped .fmail/");
}

/// Seen only between the answers: in the end the next process has made everything of it safe.
#[test]
fn without_the_sync_of_what_a_dead_process_left_in_the_journal() {
    let succession = succession("a daemon with a journal, then a command");
    let failure = succession.explore_moments(Some(Site::JournalOfAnother), true);
    let failure = failure.expect_err("the missing sync was not noticed");
    assert!(failure.contains("skipped .fmail/"), "caught for another reason: {failure}");
}

#[test]
fn without_the_sync_of_a_message_that_a_dead_process_left_in_the_journal() {
    caught_behind_a_kill(Site::SafeOfAnother, "a daemon with a journal, then a command", "skipped .fmail/");
    caught_behind_a_kill(Site::SafeOfAnother, "a daemon with a journal, then a removal", "skipped .fmail/");
}

#[test]
fn without_the_sync_of_the_mailbox_of_a_message_that_a_dead_process_left_in_the_journal() {
    caught_behind_a_kill(Site::SafeNameOfAnother, "a daemon with a journal, then a command", "is lost");
    caught_behind_a_kill(Site::SafeNameOfAnother, "a daemon with a journal, then a removal", "is lost");
}

#[test]
fn without_the_sync_of_a_new_journal_s_name() {
    caught(Site::NewJournalName, "a group of one through the journal", "is lost|skipped .fmail/");
}

/// Its first group would make it durable too, but not without a commit of the file system.
#[test]
fn without_the_sync_of_a_new_journal() {
    caught(Site::NewJournal, "a group of one through the journal", "was a commit of the file system");
}

#[test]
fn with_reserved_blocks_in_place_of_zeroes() {
    caught(Site::Zeroes, "a group of one through the journal", "was a commit of the file system");
}

#[test]
fn with_a_replay_that_skips_the_names_that_are_there() {
    for name in ["a group of one through the journal", "groups of two through the journal", "a journal that is full"] {
        let scenario = SCENARIOS.iter().find(|known| known.name == name).unwrap();
        let failure = play_believing(scenario, Effort::of(24)).expect_err("the replay was not noticed");
        println!("a replay that skips names: {}", failure.lines().next().unwrap_or_default());
        let reason = ["is not whole", "is lost", "skipped .fmail/"].iter().any(|reason| failure.contains(reason));
        assert!(reason, "caught for another reason: {failure}");
    }
}

/// `project.json` is put into the same directory right behind, and that sync covers all of its names. The same lines of code
/// sync where it matters ([`Site::Parent`], [`Site::NewMailbox`]), and a project is made once.
#[test]
fn the_syncs_of_a_project_in_the_making_are_covered_by_its_last() {
    let scenario = &SCENARIOS[0];
    assert_eq!(scenario.name, "the first message of a project");
    play(scenario, Some(Site::FirstParents), Effort::of(24)).unwrap();
    play(scenario, Some(Site::Temporaries), Effort::of(24)).unwrap();
}

/// Nobody was told of the message that is settled, and who sends it again syncs its mailboxes. The sync is kept so that
/// what a reader has been shown does not disappear again.
#[test]
fn the_sync_of_a_settled_message_keeps_no_promise() {
    for succession in SUCCESSIONS.iter().filter(|succession| ["several recipients", "a key"].contains(&succession.name))
    {
        succession.explore(Some(Site::Settled)).unwrap();
    }
}

/// The sync of the next group covers it, and until then everything that the header gives up is safe in its mailboxes. It is
/// there for removals: what was removed and synced must not come out of the journal again.
#[test]
fn the_sync_of_the_journal_s_header_keeps_no_promise_about_what_was_stored() {
    let scenario = SCENARIOS.iter().find(|known| known.name == "a journal that is full").unwrap();
    play(scenario, Some(Site::JournalClean), Effort::of(12)).unwrap();
}

#[test]
fn every_sync_has_been_left_out_once() {
    let mut seen: BTreeSet<Site> = BTreeSet::new();
    for scenario in &SCENARIOS {
        let stage = Stage::on(Project::in_memory(), clock(), 1, None);
        (scenario.play)(&stage);
        seen.extend(stage.recorder.recording().sites);
    }
    for succession in &SUCCESSIONS {
        let stages = (0..).map_while(|kill_at| succession.play(kill_at, None, false));
        stages.for_each(|stage| seen.extend(stage.recorder.recording().sites));
    }
    let tested = include_str!("mutants.rs");
    for site in &seen {
        let name = format!("(Some(Site::{site:?})");
        let left_out = tested.contains(&format!("(Site::{site:?},")) || tested.contains(&name);
        assert!(left_out || tested.contains(&format!(", Some(Site::{site:?})")), "{site:?} is never left out");
    }
    assert_eq!(seen.len(), 27, "{seen:?}");
}
