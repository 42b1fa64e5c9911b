//! The tools, one file each.

mod acknowledge_message;
mod check_file_reservation_conflicts;
mod ensure_project;
pub(crate) mod fetch_inbox;
mod fetch_topic;
mod file_reservation_paths;
mod health_check;
mod macro_prepare_thread;
mod macro_start_session;
mod mark_message_read;
mod message_receipts;
mod register_agent;
mod release_file_reservations;
mod renew_file_reservations;
mod reply_message;
mod search_messages;
mod send_message;
pub(crate) mod summarize_thread;
mod wait_for_message;
mod whois;

use crate::Profile;
use crate::tool::Tool;

/// Every tool, in the order of the list.
static TOOLS: &[&Tool] = &[
    &health_check::TOOL,
    &ensure_project::TOOL,
    &register_agent::TOOL,
    &whois::TOOL,
    &macro_start_session::TOOL,
    &macro_prepare_thread::TOOL,
    &send_message::TOOL,
    &reply_message::TOOL,
    &fetch_inbox::TOOL,
    &wait_for_message::TOOL,
    &mark_message_read::TOOL,
    &acknowledge_message::TOOL,
    &search_messages::TOOL,
    &summarize_thread::TOOL,
    &file_reservation_paths::TOOL,
    &release_file_reservations::TOOL,
    &renew_file_reservations::TOOL,
    &check_file_reservation_conflicts::TOOL,
    &fetch_topic::TOOL,
    &message_receipts::TOOL,
];

/// The tools that a profile offers.
pub(crate) fn offered(profile: Profile) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().copied().filter(move |tool| tool.offered <= profile)
}
