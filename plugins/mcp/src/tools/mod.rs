//! The tools, one file each.

mod ensure_project;
mod fetch_inbox;
mod health_check;
mod register_agent;
mod send_message;

use crate::Profile;
use crate::tool::Tool;

/// Every tool, in the order of the list.
static TOOLS: &[&Tool] =
    &[&health_check::TOOL, &ensure_project::TOOL, &register_agent::TOOL, &send_message::TOOL, &fetch_inbox::TOOL];

/// The tools that a profile offers.
pub(crate) fn offered(profile: Profile) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().copied().filter(move |tool| tool.offered <= profile)
}
