//! Whether a file is believed, before it is loaded or run: loading a library runs its constructors.

use std::fmt::Write;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use fmail_api::{Error, ErrorKind};
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use super::{Manifest, elf, embedded};

/// What a plugin's file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginForm {
    /// A shared library.
    Library,
    /// A program that speaks lines of JSON.
    Program,
}

impl PluginForm {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            PluginForm::Library => "library",
            PluginForm::Program => "program",
        }
    }

    /// What a file is by its name: what ends as libraries do is one.
    pub fn of(path: &Path) -> PluginForm {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(std::env::consts::DLL_SUFFIX) { PluginForm::Library } else { PluginForm::Program }
    }
}

/// A file that passed every check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// The file itself, absolute, without links.
    pub path: PathBuf,
    /// What it is.
    pub form: PluginForm,
}

impl PluginFile {
    /// The manifest of a library, read from the file without loading it; none where that cannot be done: a program says
    /// what it is when it runs, and a library may be built in ways that are not followed here.
    pub fn manifest(&self) -> Result<Option<Manifest>, Error> {
        let failed = |error: io::Error| Error::io(format_args!("cannot read {}", self.path.display()), &error);
        let file = File::open(&self.path).map_err(failed)?;
        match embedded::manifest(&file).filter(|_| self.form == PluginForm::Library) {
            Some(text) => Manifest::parse(&text, &self.path.display().to_string()).map(Some),
            None => Ok(None),
        }
    }
}

/// Why a file is not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file as it was named.
    pub path: PathBuf,
    /// What was expected and what was got.
    pub reason: String,
    /// What to do about it.
    pub help: String,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::new(ErrorKind::InvalidConfig, refusal.reason).context("file", refusal.path.display()).help(refusal.help)
    }
}

/// Checks a file: that its path is absolute, that nobody but the user and root could have written it or put it there, that it
/// has the pinned SHA-256, and that it is what it should be (`form`; without it, what its name says).
pub fn check_file(path: &Path, form: Option<PluginForm>, pin: Option<&str>) -> Result<PluginFile, Refusal> {
    let refused = |(reason, help): (String, String)| Refusal { path: path.to_path_buf(), reason, help };
    let form = form.unwrap_or_else(|| PluginForm::of(path));
    let real = resolved(path).map_err(refused)?;
    let (mut file, metadata) = opened(&real).map_err(refused)?;
    check_metadata(&real, &metadata).map_err(refused)?;
    check_form(&real, &file, &metadata, form).map_err(refused)?;
    if let Some(pin) = pin {
        check_pin(&real, &mut file, pin).map_err(refused)?;
    }
    Ok(PluginFile { path: real, form })
}

/// What was expected and got, and what to do.
type Why = (String, String);

/// How many links a path may have, as in the kernel.
const MAX_LINKS: usize = 40;

/// The file that a path means. Every directory on the way, also on the way through links, is checked: who can write one
/// can put another file there.
fn resolved(path: &Path) -> Result<PathBuf, Why> {
    if !path.is_absolute() {
        let reason = format!("expected an absolute path, got {}", path.display());
        return Err((reason, "write the whole path, from / on".into()));
    }
    let mut real = PathBuf::from("/");
    let mut rest: Vec<PathBuf> = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            real.pop();
            continue;
        }
        check_directory(&real, rest.is_empty())?;
        let next = real.join(&part);
        let metadata = fs::symlink_metadata(&next).map_err(|error| unusable(&next, &error))?;
        if !metadata.is_symlink() {
            real = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err((format!("expected a file, got more than {MAX_LINKS} links"), "name the file itself".into()));
        }
        let target = fs::read_link(&next).map_err(|error| unusable(&next, &error))?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.extend(parts(&target));
    }
    Ok(real)
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    };
    path.components().rev().filter_map(part).collect()
}

/// A directory must be the user's or root's. Others may write only one that lets nobody replace another's entries, such as
/// /tmp, and never the `last` one, which holds the file or the link to it.
fn check_directory(path: &Path, last: bool) -> Result<(), Why> {
    const STICKY: u32 = 0o1000;
    let metadata = fs::metadata(path).map_err(|error| unusable(path, &error))?;
    if !metadata.is_dir() {
        return Err((format!("expected a directory, got a file: {}", path.display()), "correct the path".into()));
    }
    if !last && metadata.mode() & STICKY != 0 && metadata.uid() == 0 {
        return Ok(());
    }
    check_owner("directory", path, &metadata)
}

fn check_metadata(path: &Path, metadata: &Metadata) -> Result<(), Why> {
    if !metadata.is_file() {
        let got = if metadata.is_dir() { "a directory" } else { "something else (a device, a pipe, a socket)" };
        return Err((format!("expected a regular file, got {got}"), "name the file of the plugin".into()));
    }
    check_owner("file", path, metadata)
}

fn check_owner(what: &str, path: &Path, metadata: &Metadata) -> Result<(), Why> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user && metadata.uid() != 0 {
        let reason = format!(
            "expected a {what} of yours (user {user}) or root's, got one of user {}: {}",
            metadata.uid(),
            path.display()
        );
        return Err((reason, format!("copy it to a place of your own, or let root own the {what}")));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        let reason =
            format!("expected a {what} that only its owner can write, got mode {mode:04o}: {}", path.display());
        return Err((reason, format!("chmod go-w {}", path.display())));
    }
    Ok(())
}

/// Opened without blocking: a named pipe must not hang a command.
fn opened(path: &Path) -> Result<(File, Metadata), Why> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| unusable(path, &error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|error| unusable(path, &error))?;
    Ok((file, metadata))
}

fn check_form(path: &Path, file: &File, metadata: &Metadata, form: PluginForm) -> Result<(), Why> {
    match form {
        PluginForm::Library => elf::check_library(file).map_err(|reason| {
            let help = "build the plugin as a shared library for this machine; a program is named without \
                        the ending of libraries";
            (reason, help.to_string())
        }),
        PluginForm::Program if elf::is_library(file) => Err((
            "expected a program, got a library".into(),
            format!("a library is named lib…{}", std::env::consts::DLL_SUFFIX),
        )),
        PluginForm::Program if metadata.mode() & 0o111 == 0 && !begins_a_program(file) => Err((
            "expected a library or a program, got a file that is neither".into(),
            "name the library (lib….so), or a program: a script begins with `#!` and may be run".into(),
        )),
        PluginForm::Program if metadata.mode() & 0o111 == 0 => {
            let reason = format!("expected a program that may be run, got mode {:04o}", metadata.mode() & 0o7777);
            Err((reason, format!("chmod u+x {}", path.display())))
        }
        PluginForm::Program => Ok(()),
    }
}

/// Whether a file begins as a script or as a program of this system does.
fn begins_a_program(file: &File) -> bool {
    let mut start = [0; 4];
    let read = std::os::unix::fs::FileExt::read_at(file, &mut start, 0).unwrap_or(0);
    start[..read].starts_with(b"#!") || &start[..read] == b"\x7fELF"
}

fn check_pin(path: &Path, file: &mut File, pin: &str) -> Result<(), Why> {
    let got = sha256_of(file).map_err(|error| unusable(path, &error))?;
    if got.eq_ignore_ascii_case(pin) {
        return Ok(());
    }
    Err((
        format!("expected the SHA-256 {pin}, got {got}"),
        "if you know why the file has changed, write the new SHA-256 into the configuration".into(),
    ))
}

/// The SHA-256 of what is still to be read, in hexadecimal digits.
pub fn sha256_of(from: &mut impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unusable(path: &Path, error: &io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("expected a file, got nothing: {} is not there", path.display()), "correct the path".into())
        }
        _ => (format!("expected a file, got an error: {}: {error}", path.display()), "correct the path".into()),
    }
}
