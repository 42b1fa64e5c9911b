//! Clears away what a network has made on the machine, also when the test is interrupted.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Every process of a network has this variable, with the network's name in it.
pub const MARK: &str = "RELAY_TEST_NETWORK";

/// How the names of networks begin; then come the process and a number.
pub const PREFIX: &str = "fmrelay";

/// Clears a network away: processes by their mark, mounts, namespaces, the directory. `$1` is its name, `$2` its directory.
const CLEAR: &str = r#"
clear_away() {
    for round in 1 2 3 4 5; do
        found=
        for file in $(grep -lsaz "^RELAY_TEST_NETWORK=$1\$" /proc/[0-9]*/environ 2>/dev/null); do
            pid=${file#/proc/}
            pid=${pid%/environ}
            if [ "$pid" != "$$" ]; then kill -9 "$pid" 2>/dev/null && found=1; fi
        done
        [ -z "$found" ] && break
    done
    for point in $(grep -oE " $2/[^ ]+ " /proc/mounts | sort -r); do umount -l "$point" 2>/dev/null; done
    for space in $(ip netns list 2>/dev/null | cut -d ' ' -f 1 | grep "^$1-"); do ip netns del "$space" 2>/dev/null; done
    rm -rf "$2"
}
"#;

/// A process that waits until its standard input ends, which it does when the test drops it or dies in any way.
pub struct Janitor {
    child: Child,
}

impl Janitor {
    /// Starts it for a network that is about to be made.
    pub fn start(name: &str, directory: &Path) -> io::Result<Janitor> {
        let script = format!("{CLEAR}\ntrap '' INT TERM HUP\nread -r nothing\nclear_away \"$1\" \"$2\"\n");
        let mut command = Command::new("setsid");
        // A session of its own: Ctrl+C on the terminal is for the tests.
        command.args(["--wait", "sh", "-c", &script, "janitor", name]).arg(directory).current_dir("/");
        command.env_remove(MARK).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Janitor { child: command.spawn()? })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Clears away the networks of test processes that are gone: theirs was killed with its janitor, or the machine's power cut.
pub fn clear_leftovers(directory: &Path) {
    let mut names: Vec<String> = Vec::new();
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    names.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
    let listed = Command::new("ip").args(["netns", "list"]).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let spaces = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.extend(spaces.filter_map(|space| space.rsplit_once('-')).map(|(name, _)| name.to_string()));
    names.sort();
    names.dedup();
    for name in names.iter().filter(|name| owner(name).is_some_and(|pid| !Path::new("/proc").join(pid).exists())) {
        let script = format!("{CLEAR}\nclear_away \"$1\" \"$2\"\n");
        let _ = Command::new("sh").args(["-c", &script, "janitor", name]).arg(directory.join(name)).status();
    }
}

/// The process that made a network, if it is one of ours.
fn owner(name: &str) -> Option<&str> {
    let pid = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-').next()?;
    pid.bytes().all(|byte| byte.is_ascii_digit()).then_some(pid)
}

/// Where networks have their directories: short, because sockets are in them.
pub fn networks() -> PathBuf {
    std::env::temp_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_network_stands_in_its_name_and_others_are_left_alone() {
        assert_eq!(owner("fmrelay-12-3"), Some("12"));
        for other in ["fmrelay", "fmrelay-x-1", "other-12-3", "fmail-relay-12"] {
            assert_eq!(owner(other), None);
        }
    }
}
