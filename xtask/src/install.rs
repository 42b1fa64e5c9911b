//! `cargo xtask install`: puts fmail under a prefix as a package would.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_api::{Error, Result};

use crate::cargo;
use crate::manifest::{self, Manifest};
use crate::relink::{HEADER, TOP, installed, relinked};

/// Install the programs, their man pages, shell completions and documents under a prefix
#[derive(Debug, clap::Args)]
pub struct Install {
    /// Where to: bin, lib and share are created below it
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Install the unoptimised build that the tests use
    #[arg(long)]
    debug: bool,
}

/// One file to be installed.
struct Item {
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
}

/// The programs that people call.
const PROGRAMS: [&str; 2] = ["fmail", "forged"];

/// Programs without man pages of their own: what `fmail plugin check` and `bench` run, of which fmail's pages tell, and fmail
/// as a mail script, which no person calls.
const BESIDE: [&str; 2] = ["fmail-plugin-check", "fmail-gc-mail"];

/// Where plugins are looked for.
const PLUGINS: &str = "lib/fmail/plugins";

/// The plugins that come with fmail, by their crates.
const OURS: [&str; 6] = ["fmail-sqlite", "fmail-exec", "fmail-chat", "fmail-ws", "fmail-http", "fmail-mirror"];

impl Install {
    /// Builds and installs.
    pub fn run(&self) -> Result<()> {
        let program = if self.debug { cargo::build_debug()? } else { cargo::build_release()? };
        if !self.debug {
            cargo::build_release_plugins(&OURS)?;
        }
        let mut items = Vec::new();
        items.extend(manual(self.debug)?);
        for name in PROGRAMS.into_iter().chain(BESIDE) {
            let program = program.with_file_name(name);
            let content = fs::read(&program).map_err(doing("reading", &program))?;
            items.push(Item { path: Path::new("bin").join(name), content, mode: 0o755 });
        }
        for library in OURS.map(|name| format!("lib{}.so", name.replace('-', "_"))) {
            let built = program.with_file_name(&library);
            let content = fs::read(&built).map_err(doing("reading", &built))?;
            items.push(Item { path: Path::new(PLUGINS).join(library), content, mode: 0o755 });
        }
        let header = cargo::workspace().join(HEADER.0);
        let content = fs::read(&header).map_err(doing("reading", &header))?;
        items.push(Item { path: HEADER.1.into(), content, mode: 0o644 });
        items.extend(documents()?);
        let manifest = install(&self.prefix, &items)?;
        println!("installed {} files under {}", manifest.files.len(), self.prefix.display());
        Ok(())
    }
}

/// Installs the items and writes the list of them; what an earlier installation had and this one lacks goes away.
fn install(prefix: &Path, items: &[Item]) -> Result<Manifest> {
    let earlier = Manifest::read(prefix)?.unwrap_or_default();
    let mut manifest = Manifest { directories: earlier.directories, ..Manifest::default() };
    let list = Path::new(manifest::PATH);
    create_directory(prefix, Path::new(PLUGINS), &mut manifest)?;
    for path in items.iter().map(|item| item.path.as_path()).chain([list]) {
        create_directory(prefix, path.parent().unwrap_or(Path::new("")), &mut manifest)?;
    }
    manifest.files = items.iter().map(|item| item.path.clone()).collect();

    // The list is written before the first file and names the earlier files too, so that after an interruption
    // nothing is there that it does not name.
    let mut interim = Manifest { files: &manifest.files | &earlier.files, ..Manifest::default() };
    interim.directories.clone_from(&manifest.directories);
    replace(prefix, &Item { path: list.into(), content: interim.text().into(), mode: 0o644 })?;
    for item in items {
        replace(prefix, item)?;
    }
    for stale in earlier.files.difference(&manifest.files) {
        remove_if_there(&prefix.join(stale))?;
    }
    replace(prefix, &Item { path: list.into(), content: manifest.text().into(), mode: 0o644 })?;
    Ok(manifest)
}

/// Creates a directory below the prefix with its parents and notes the ones that were not there.
fn create_directory(prefix: &Path, path: &Path, manifest: &mut Manifest) -> Result<()> {
    let chain: Vec<&Path> = path.ancestors().collect();
    for part in chain.into_iter().rev() {
        let directory = prefix.join(part);
        let made = if part.as_os_str().is_empty() && !prefix.exists() {
            fs::create_dir_all(prefix)
        } else {
            fs::create_dir(&directory)
        };
        match made {
            Ok(()) => _ = manifest.directories.insert(part.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(error) => return Err(doing("creating", &directory)(error)),
        }
    }
    Ok(())
}

/// Writes a file beside its place and moves it there, so that a running program keeps its old file and a new one
/// finds either the old or the new, whole.
fn replace(prefix: &Path, item: &Item) -> Result<()> {
    let file = prefix.join(&item.path);
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let write = || {
        fs::write(&temporary, &item.content)?;
        fs::set_permissions(&temporary, fs::Permissions::from_mode(item.mode))?;
        fs::rename(&temporary, &file)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        doing("installing", &file)(error)
    })
}

fn remove_if_there(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(doing("removing", file)(error)),
        _ => Ok(()),
    }
}

/// The man pages and shell completions, from the definitions that also give the help. Who makes them is built as the tests are:
/// it runs once.
fn manual(debug: bool) -> Result<Vec<Item>> {
    let directory = tempfile::tempdir().map_err(|error| Error::io("a directory for the man pages", &error))?;
    let mut writer = match debug {
        true => Command::new(cargo::target().join("debug/fmail-manual")),
        false => cargo::cargo(&["run", "--quiet", "--package", "fmail-manual", "--"]),
    };
    cargo::run(writer.arg(directory.path()))?;
    let mut items = Vec::new();
    let mut unread = vec![directory.path().to_path_buf()];
    while let Some(path) = unread.pop() {
        if path.is_dir() {
            unread.extend(entries(&path)?);
            continue;
        }
        let content = fs::read(&path).map_err(doing("reading", &path))?;
        let path = path.strip_prefix(directory.path()).unwrap_or(&path).to_path_buf();
        items.push(Item { path, content, mode: 0o644 });
    }
    Ok(items)
}

/// The documents at the top of the repository, and everything in `docs`, the sample configuration included.
fn documents() -> Result<Vec<Item>> {
    let workspace = cargo::workspace();
    let mut files = TOP.map(|name| workspace.join(name)).to_vec();
    let below = |directory: &str| workspace.join(directory);
    for directory in [below("docs"), below("docs/plugins")] {
        files.extend(entries(&directory)?);
    }
    for example in entries(&below("plugins/examples"))? {
        for entry in entries(&example)? {
            if entry.is_dir() { files.extend(entries(&entry)?) } else { files.push(entry) }
        }
    }
    let mut items = Vec::new();
    for file in files.into_iter().filter(|file| file.is_file()) {
        let own = file.strip_prefix(&workspace).unwrap_or(&file);
        let Some(path) = installed(own) else { continue };
        let mut content = fs::read(&file).map_err(doing("reading", &file))?;
        if own.extension().is_some_and(|end| end == "md") {
            content =
                relinked(&String::from_utf8_lossy(&content), own, |file| workspace.join(file).exists()).into_bytes();
        }
        items.push(Item { path, content, mode: 0o644 });
    }
    Ok(items)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(directory).map_err(doing("reading", directory))?;
    read.map(|entry| Ok(entry.map_err(doing("reading", directory))?.path())).collect()
}

/// Names what was being done with which file.
pub fn doing<'a>(what: &'a str, file: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |error| Error::io(format_args!("{what} {}", file.display()), &error)
}
