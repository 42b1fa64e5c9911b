//! The stores that a name in the configuration can mean.

use fmail_api::{Error, ErrorKind, Result};

use crate::near::suggestion;

/// The stores that are built in.
pub const STORES: [&str; 2] = ["files", "memory"];

/// Whether several processes can have a built-in store open and see the same messages; nothing for any other store, which
/// tells only when it is open.
pub fn is_shared(name: &str) -> Option<bool> {
    match name {
        "files" => Some(true),
        "memory" => Some(false),
        _ => None,
    }
}

/// Checks that a store of this name is built in.
pub fn check_name(name: &str) -> Result<()> {
    if STORES.contains(&name) {
        return Ok(());
    }
    let unknown = |what: String, help: String| Err(Error::new(ErrorKind::InvalidConfig, what).help(help));
    match name {
        "beadmail" => unknown(
            "the provider `beadmail` is not part of fmail".into(),
            "use `files`, which keeps the messages in .fmail/".into(),
        ),
        "exec" => unknown(
            "the store `exec` is not available in this version of fmail".into(),
            "use `files`, which keeps the messages in .fmail/".into(),
        ),
        _ => unknown(format!("there is no store named `{}`", name.escape_debug()), suggestion(name, STORES)),
    }
}
