//! Which chat file is meant.

use std::path::{Path, PathBuf};

use crate::session::Place;

/// Where a team's chat file stands.
const DIRECTORY: &str = ".workplace";
const NAME: &str = "chat.md";

/// The file that was named, or the team's: in the nearest `.workplace` from here up to the project's root, and in the
/// root's when there is none.
pub(super) fn path(place: &Place, named: Option<&Path>) -> PathBuf {
    let here = &place.environment.cwd;
    if let Some(named) = named {
        return here.join(named);
    }
    let root = &place.project.root;
    let inside = here.ancestors().take_while(|directory| directory.starts_with(root));
    let nearest = inside.map(|directory| directory.join(DIRECTORY)).find(|directory| directory.is_dir());
    nearest.unwrap_or_else(|| root.join(DIRECTORY)).join(NAME)
}
