//! The settings files of agents that we did not write: changed in one place as text, undone to the byte.
//!
//! [`SettingsFile`] is read and replaced whole, [`json`] changes one place of its text, a [`Record`] notes what was made, and
//! [`places`] tells where each agent keeps its files.

mod file;
pub(crate) mod json;
pub(crate) mod places;
mod record;

pub(crate) use file::{SettingsFile, in_file};
pub(crate) use record::{Place, Record};
