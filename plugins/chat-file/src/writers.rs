//! Who has a file open for writing.

use std::fs;

use crate::lock::Identity;

/// A process other than ours that has the file open for writing, as a user would name it. Only what `/proc` tells: the
/// processes of this user on this host.
pub(crate) fn writers(identity: Identity) -> Option<String> {
    let own = std::process::id();
    fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).find_map(
        |pid| {
            if pid == own || !holds(pid, identity) {
                return None;
            }
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Some(format!("process {pid} ({})", name.trim_end()))
        },
    )
}

fn holds(pid: u32, identity: Identity) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| {
        let same = fs::metadata(entry.path()).is_ok_and(|metadata| Identity::of(&metadata) == identity);
        same && writes(pid, &entry.file_name().to_string_lossy())
    })
}

/// Whether a descriptor is open for writing, by its flags.
fn writes(pid: u32, number: &str) -> bool {
    let Ok(info) = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")) else { return false };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}
