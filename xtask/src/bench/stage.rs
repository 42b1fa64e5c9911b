//! The programs that are measured and the directories that they work in.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fmail_api::{Error, Result};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use tempfile::TempDir;

use crate::install::doing;
use crate::{cargo, fixture};

/// Everything that a measurement needs. Its directory is on the file system of the target directory, since temporary
/// directories are often in memory, where a sync costs nothing. Nothing in it is removed before the measurement ends.
pub struct Stage {
    directory: TempDir,
    fmail: PathBuf,
    send_in_c: PathBuf,
    group_in_c: PathBuf,
    peak: PathBuf,
    /// How often the C program has stored groups.
    groups: AtomicUsize,
}

impl Stage {
    /// A stage for this `fmail` and what lies beside it.
    pub fn with(fmail: PathBuf) -> Result<Self> {
        let stages = cargo::target().join("bench");
        std::fs::create_dir_all(&stages).map_err(doing("creating", &stages))?;
        spread_below(&stages);
        let directory =
            TempDir::with_prefix_in("stage-", &stages).map_err(doing("creating a directory in", &stages))?;
        spread_below(directory.path());
        let send_in_c = compile("send", directory.path())?;
        let group_in_c = compile("group", directory.path())?;
        let peak = compile("peak", directory.path())?;
        Ok(Stage { directory, fmail, send_in_c, group_in_c, peak, groups: AtomicUsize::new(0) })
    }

    /// The directory in which everything is measured.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A project of its own, empty or with this many messages, and with an index.
    pub fn project(&self, name: &str, messages: usize) -> Result<PathBuf> {
        let root = self.directory().join(name);
        std::fs::create_dir_all(&root).map_err(doing("creating", &root))?;
        if messages > 0 {
            fixture::copy(messages, &root)?;
        }
        // The first call in a project does what later ones find done: it creates files, and it indexes what is there.
        // It also has to be told where: the target directory mostly lies in a repository, whose root would be the project.
        succeed(self.fmail(&root, &["send", "bench", "the first message"]).env("FMAIL_ROOT", &root))?;
        settle();
        Ok(root)
    }

    /// Where `fmail` lies, and everything else that cargo has built.
    pub fn programs(&self) -> &Path {
        self.fmail.parent().unwrap_or(&self.fmail)
    }

    /// A directory in which the C program can send.
    pub fn project_in_c(&self, name: &str) -> Result<PathBuf> {
        let root = self.directory().join(name);
        for directory in ["tmp", "topics/bench"] {
            let directory = root.join(directory);
            std::fs::create_dir_all(&directory).map_err(doing("creating", &directory))?;
        }
        for file in ["lock", "index"] {
            let file = root.join(file);
            std::fs::write(&file, "").map_err(doing("creating", &file))?;
        }
        Ok(root)
    }

    /// A call of `fmail` in a project.
    pub fn fmail(&self, project: &Path, arguments: &[&str]) -> Command {
        self.command(&self.fmail, project, arguments)
    }

    /// A daemon for a project.
    pub fn forged(&self, project: &Path) -> Command {
        self.command(&self.fmail.with_file_name("forged"), project, &["--log", "warn"])
    }

    /// A send of the C program.
    pub fn send_in_c(&self, project: &Path) -> Command {
        self.command(&self.send_in_c, project, &["."])
    }

    /// How many messages a second the C program stores, in groups of this size and in this way (`xtask/c/group.c`).
    pub fn groups_in_c(&self, way: &str, size: usize, span: Duration) -> Result<f64> {
        let root = format!("groups-in-c-{}", self.groups.fetch_add(1, Ordering::Relaxed));
        let (size, span) = (size.to_string(), span.as_secs_f64().to_string());
        let mut command = self.command(&self.group_in_c, self.directory(), &[&root, way, &size, &span]);
        let output = command.stdout(Stdio::piped()).output().map_err(doing("starting", &self.group_in_c))?;
        let stored = String::from_utf8_lossy(&output.stdout).trim().parse();
        stored.map_err(|_| Error::internal(format!("the C program failed in the benchmark: {}", output.status)))
    }

    /// The program that does nothing.
    pub fn nothing(&self) -> Command {
        self.command(Path::new("/bin/true"), self.directory(), &[])
    }

    /// A call of `fmail` that tells its peak memory at the end of stderr.
    pub fn fmail_with_peak(&self, project: &Path, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.peak, project, &[]);
        command.arg(&self.fmail).args(arguments).stderr(Stdio::piped());
        command
    }

    /// All commands are made alike, so that starting them costs alike. The environment is empty: neither the caller's
    /// identity nor the caller's configuration may change what is measured.
    pub fn command(&self, program: &Path, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory);
        command.env_clear().env("HOME", self.directory()).env("FMAIL_AGENT", "bench");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Brings to the disk what was written before. Whoever is measured next waits for its own files, and not for those of who was
/// measured before: a sync of the whole file system, and a disk with a full queue, make no difference between them.
pub fn settle() {
    rustix::fs::sync();
}

/// Asks the file system to put the directories that are made in this one far from each other, where it knows how to.
///
/// An ext4 without a journal does not use an inode again for minutes after it was freed, and looks at each such inode again
/// for every file that it makes nearby: what a build or an earlier measurement has removed would make files ten times as dear.
fn spread_below(directory: &Path) {
    let spread = || -> std::io::Result<()> {
        let file = File::open(directory)?;
        let flags = ioctl_getflags(&file)?;
        Ok(ioctl_setflags(&file, flags | IFlags::TOPDIR)?)
    };
    // Other file systems have no such wish to grant, and do not need it.
    let _ = spread();
}

fn compile(name: &str, directory: &Path) -> Result<PathBuf> {
    let program = directory.join(format!("{name}.program"));
    let source = cargo::workspace().join(format!("xtask/c/{name}.c"));
    cargo::run(Command::new("cc").args(["-O2", "-Wall", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

/// Runs a command; anything but success spoils the measurement.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status =
        command.status().map_err(|error| Error::io(format_args!("starting `{}`", cargo::describe(command)), &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::internal(format!("`{}` failed in the benchmark: {status}", cargo::describe(command))))
}
