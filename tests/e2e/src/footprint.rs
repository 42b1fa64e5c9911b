//! What a process holds of the machine, as `/proc` tells it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Descriptors, threads and memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// How many descriptors are open.
    pub descriptors: usize,
    /// How many threads there are.
    pub threads: u64,
    /// Resident memory, in kilobytes.
    pub kilobytes: u64,
}

/// How many more threads are no leak: those that do what would block others end only when they had nothing to do for ten
/// seconds. A thread that is left behind with each connection is far more than these within seconds.
const MORE_THREADS: u64 = 24;

impl Footprint {
    /// The footprint of a process; nothing when it is gone.
    pub fn of(pid: u32) -> Option<Footprint> {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        Some(Footprint { descriptors, threads: number("Threads:")?, kilobytes: number("VmRSS:")? })
    }

    /// What the descriptors of a process are, and how many of each kind: for whoever looks for the one that is left over.
    pub fn held(pid: u32) -> BTreeMap<String, usize> {
        let mut held = BTreeMap::new();
        for descriptor in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let target = std::fs::read_link(descriptor.path()).unwrap_or_default().to_string_lossy().into_owned();
            // `socket:[4711]` is a socket like any other.
            let kind = target.split(":[").next().unwrap_or_default().to_string();
            *held.entry(kind).or_default() += 1;
        }
        held
    }

    /// Looks until the number of descriptors has stayed the same for a while. Connections that were closed at one end
    /// take a moment at the other, and nothing tells when that is over.
    pub fn settled(mut look: impl FnMut() -> Footprint) -> Footprint {
        let end = Instant::now() + Duration::from_secs(30);
        let (mut last, mut same) = (look(), 0);
        while same < 25 {
            assert!(Instant::now() < end, "the descriptors never settle: {last}");
            std::thread::sleep(Duration::from_millis(20));
            let now = look();
            same = if now.descriptors == last.descriptors { same + 1 } else { 0 };
            last = now;
        }
        last
    }

    /// What has grown since `before`: any descriptor, memory beyond the bound, or many threads. Fewer descriptors are fine: an
    /// index that was replaced stays open until its last reader looks again.
    pub fn growth_since(self, before: Footprint, bound: u64) -> Vec<String> {
        let mut grown = Vec::new();
        if self.descriptors > before.descriptors {
            grown.push(format!("{} descriptors have become {}", before.descriptors, self.descriptors));
        }
        if self.threads > before.threads + MORE_THREADS {
            grown.push(format!("{} threads have become {}", before.threads, self.threads));
        }
        if self.kilobytes > before.kilobytes + bound {
            grown.push(format!("{} kB have become {}, more than {bound} kB", before.kilobytes, self.kilobytes));
        }
        grown
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} descriptors, {} threads, {} kB", self.descriptors, self.threads, self.kilobytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaked_descriptor_and_leaked_memory_are_seen() {
        // Another process, so that other tests of this program do not change what is counted.
        let mut shell = std::process::Command::new("bash");
        let script = "read; exec 9</dev/null; x=$(head -c 9000000 /dev/zero | tr '\\0' x); echo; read";
        let pipes = || std::process::Stdio::piped();
        let mut child = shell.args(["-c", script]).stdin(pipes()).stdout(pipes()).spawn().unwrap();
        let look = || Footprint::of(child.id()).unwrap();
        let before = Footprint::settled(look);
        assert_eq!(look().growth_since(before, 0), [] as [&str; 0]);
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let grown = Footprint::of(child.id()).unwrap().growth_since(before, 4_096);
        assert!(grown.len() == 2 && grown[0].contains("descriptors") && grown[1].contains("kB"), "{grown:?}");
        drop(input);
        child.wait().unwrap();
    }

    #[test]
    fn leaked_threads_are_seen() {
        let before = Footprint { descriptors: 9, threads: 4, kilobytes: 1_000 };
        let after = |threads| Footprint { threads, ..before };
        assert_eq!(after(4 + MORE_THREADS).growth_since(before, 0), [] as [&str; 0]);
        assert_eq!(after(60).growth_since(before, 0), ["4 threads have become 60"]);
    }
}
