//! Plugins that are broken or mean harm, each built from a file in `tests/plugins/hostile`. Whatever one does ends in the
//! message that docs/plugins/operating.md documents, and another plugin in the same process goes on.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod blocking;
mod creating;
mod ending;
mod kit;
mod loading;
mod panicking;
mod upward;
mod versions;
