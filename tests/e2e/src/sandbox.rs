//! A project in a directory of its own, away from everything that the user has.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::{DEADLINE, Fmail, Output, Running, Tree, assert_same, eventually, fmail_binary, forged_binary, tree};

/// A temporary directory with an empty `project`, a `home` and a `bin` that holds `fmail`; removed when dropped.
///
/// Commands run in `project`, see no `FMAIL_*` variable and find their home and configuration inside the sandbox.
pub struct Sandbox {
    top: TempDir,
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox::new()
    }
}

impl Sandbox {
    /// An empty project: no `.fmail`, no `.git`, here or above.
    pub fn new() -> Sandbox {
        let top = tempfile::Builder::new().prefix("fmail-e2e-").tempdir().expect("a temporary directory");
        for above in top.path().ancestors() {
            for marker in [".fmail", ".git"] {
                assert!(!above.join(marker).exists(), "{}/{marker} would be found; set TMPDIR", above.display());
            }
        }
        // Other users must be able to come in, for the tests of what they may read.
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        for directory in ["project", "home", "bin"] {
            fs::create_dir(top.path().join(directory)).expect("own directory");
        }
        symlink(fmail_binary(), top.path().join("bin/fmail")).expect("own directory");
        Sandbox { top }
    }

    /// The project directory, where commands run.
    pub fn path(&self) -> PathBuf {
        self.top.path().join("project")
    }

    /// The directory around the project: what lies here is outside.
    pub fn outside(&self) -> &Path {
        self.top.path()
    }

    /// The home directory of the commands.
    pub fn home(&self) -> PathBuf {
        self.top.path().join("home")
    }

    /// `.fmail` of the project, whether it exists or not.
    pub fn store(&self) -> PathBuf {
        self.path().join(".fmail")
    }

    /// `fmail` in the project, without an identity.
    pub fn fmail(&self) -> Fmail {
        self.command(fmail_binary())
    }

    /// `fmail` in the project, as this agent.
    pub fn agent(&self, name: &str) -> Fmail {
        self.fmail().agent(name)
    }

    /// A shell script in the project, with `fmail` on its PATH, as this agent. It stops at the first command that fails.
    pub fn bash(&self, agent: &str, script: &str) -> Fmail {
        self.command(Path::new("bash")).agent(agent).args(["-euo", "pipefail", "-c", script])
    }

    /// Any program in the project, with the same clean environment.
    pub fn command(&self, program: &Path) -> Fmail {
        let mut command = Command::new(program);
        let bin = self.top.path().join("bin");
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join(".config"))
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        Fmail::new(command)
    }

    /// Starts a daemon in the project and waits until it answers.
    pub fn forged(&self, args: &[&str]) -> Running {
        let running = self.command(forged_binary()).args(args).spawn();
        eventually(DEADLINE.as_secs(), "a daemon that answers", || {
            let status = self.command(forged_binary()).arg("status").run();
            (status.code == 0).then_some(())
        });
        running
    }

    /// How many connections to the project's daemon are open, as the kernel tells.
    pub fn connections(&self) -> usize {
        let socket = self.store().join("forged.sock").display().to_string();
        let table = fs::read_to_string("/proc/net/unix").expect("proc is mounted");
        // The sixth column is the state, 03 when connected; the last one the path.
        let connected = |line: &&str| line.ends_with(&socket) && line.split_whitespace().nth(5) == Some("03");
        table.lines().filter(connected).count()
    }

    /// Sends as this agent and gives the message's id.
    pub fn send(&self, agent: &str, target: &str, body: &str) -> String {
        let output = self.agent(agent).args(["send", target, "--", body]).ok();
        output.stdout.trim_end().to_string()
    }

    /// The newest messages of `fmail log --json`, as this agent, oldest first.
    pub fn log(&self, agent: &str, args: &[&str]) -> Vec<Value> {
        self.agent(agent).args(["log", "--json", "-n", "100000"]).args(args).ok().json_lines()
    }

    /// The bodies of [`Sandbox::log`].
    pub fn bodies(&self, agent: &str, args: &[&str]) -> Vec<String> {
        self.log(agent, args)
            .iter()
            .map(|message| message["body"].as_str().map_or_else(|| message["body"].to_string(), Into::into))
            .collect()
    }

    /// Runs a git command in the project, as a test author.
    pub fn git(&self, args: &[&str]) -> Output {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
        self.command(Path::new("git")).args(identity).args(args).ok()
    }

    /// Writes a file below the project, with the directories above it.
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("own directory");
        fs::write(&path, contents).expect("own file");
        path
    }

    /// The project as data, to compare before and after.
    pub fn tree(&self) -> Tree {
        tree(&self.path())
    }

    /// Requires that the project is as it was.
    #[track_caller]
    pub fn assert_unchanged(&self, before: &Tree) {
        assert_same(before, &self.tree());
    }

    /// The names in a directory below the project, sorted; empty when there is none.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path().join(directory)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The permission bits of a path below the project.
    pub fn mode(&self, path: &str) -> u32 {
        let metadata = self.path().join(path).symlink_metadata().unwrap_or_else(|error| panic!("{path}: {error}"));
        metadata.permissions().mode() & 0o7777
    }
}
