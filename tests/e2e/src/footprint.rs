//! What a process holds of the machine, as `/proc` tells it.

use std::fmt;
use std::time::{Duration, Instant};

/// Descriptors and memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// How many descriptors are open.
    pub descriptors: usize,
    /// Resident memory, in kilobytes.
    pub kilobytes: u64,
}

impl Footprint {
    /// The footprint of a process; nothing when it is gone.
    pub fn of(pid: u32) -> Option<Footprint> {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        Some(Footprint { descriptors, kilobytes: line.split_whitespace().nth(1)?.parse().ok()? })
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

    /// What has grown since `before`: any descriptor, or memory beyond the bound. Fewer descriptors are fine: an index that
    /// was replaced stays open until its last reader looks again.
    pub fn growth_since(self, before: Footprint, bound: u64) -> Vec<String> {
        let mut grown = Vec::new();
        if self.descriptors > before.descriptors {
            grown.push(format!("{} descriptors have become {}", before.descriptors, self.descriptors));
        }
        if self.kilobytes > before.kilobytes + bound {
            grown.push(format!("{} kB have become {}, more than {bound} kB", before.kilobytes, self.kilobytes));
        }
        grown
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} descriptors, {} kB", self.descriptors, self.kilobytes)
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
}
