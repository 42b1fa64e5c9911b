//! What has to hold on every store.

mod agents;
mod concurrency;
mod mail;
mod project;
mod reading;
mod reservations;
mod search;
mod sending;
mod threads;
mod waiting;
mod watching;

use std::sync::OnceLock;

use crate::Case;
use crate::stage::Stage;

/// A function with its name.
type Named = (&'static str, fn(&Stage));

/// Functions with their names.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        /// The cases of this file.
        pub const CASES: &[super::Named] = &[$((stringify!($case), $case)),*];
    };
}
use cases;

/// The cases that together run every command, for set-ups of which not every case can run every time.
const FEW: &[&str] = &[
    "every_flag_of_send_arrives",
    "bodies_are_any_json",
    "a_message_that_is_too_large_is_refused",
    "a_message_sent_twice_with_its_key_is_stored_once",
    "a_reply_to_the_end_of_an_id_is_resolved",
    "log_shows_the_newest_oldest_first_and_tells_of_more",
    "log_takes_every_form_of_since",
    "topics_are_counted_and_sorted",
    "following_the_log_shows_what_is_stored_and_what_arrives",
    "watch_ends_after_its_count",
    "watch_goes_on_behind_an_id",
    "a_nudge_that_reaches_nobody_fails",
    "it_stays_until_every_recipient_has_acknowledged",
    "inbox_shows_what_is_open_and_unread",
    "check_answers_by_its_exit_code",
    "marks_are_made_and_taken_back",
    "a_claimed_message_is_given_to_nobody_else",
    "a_receipt_tells_what_every_recipient_did",
    "deleted_mail_is_gone_for_its_owner_only",
    "a_reply_to_all_goes_to_everybody",
    "a_thread_is_shown_from_any_of_its_messages",
    "words_phrases_beginnings_and_operators",
    "a_reservation_is_granted_listed_renewed_and_given_back",
    "the_guard_stops_a_commit_into_what_others_hold",
    "a_name_is_taken_once",
    "a_status_is_set_shown_and_cleared",
    "whoami_tells_who_and_where",
    "a_project_is_created_once_and_renamed",
    "gc_removes_what_is_old",
    "a_quarantine_is_there_or_it_is_said",
    "twenty_senders_with_one_key_store_one_message",
];

/// All of them.
pub fn all() -> Vec<Case> {
    let files: [&[Named]; 11] = [
        sending::CASES,
        reading::CASES,
        watching::CASES,
        waiting::CASES,
        mail::CASES,
        threads::CASES,
        search::CASES,
        reservations::CASES,
        agents::CASES,
        project::CASES,
        concurrency::CASES,
    ];
    let few = |name: &str| FEW.contains(&name);
    let case = |(name, run): &Named| Case { name, run: *run, is_of_the_few: few(name), reference: OnceLock::new() };
    let all: Vec<Case> = files.into_iter().flatten().map(case).collect();
    assert_eq!(all.iter().filter(|case| case.is_of_the_few).count(), FEW.len(), "a name in FEW is no case");
    all
}
