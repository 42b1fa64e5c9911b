//! A plugin that is a shared library, loaded into this process.
//!
//! Loading runs the library's own code, so everything that can be known before comes before: see `file.rs`. A library is
//! loaded once for each file and never unloaded: its threads and what it registered would outlive it.

mod bridge;
mod callbacks;
mod carrier;
mod checks;
mod link;
pub(super) mod log;

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fmail_abi::Calls;
use fmail_abi::layout::{ABI_MAJOR, FmPlugin, SYMBOL};
use fmail_api::{Error, ErrorKind, Result};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

pub use self::bridge::serve_library;
use self::checks::Functions;
use super::{Carrier, Manifest, PluginFile, Upward};
use crate::{PluginKind, PluginSettings};

/// Majors whose symbol is looked for to say what a file was built for. Far more than there will be.
const OTHER_MAJORS: std::ops::RangeInclusive<u32> = 0..=9;

/// A library that was loaded and found to be a plugin.
#[derive(Clone)]
pub struct Library {
    path: PathBuf,
    functions: Functions,
    manifest: Arc<Manifest>,
}

impl Library {
    /// Loads the library that a section of the configuration means, after every check of its file, and makes sure that it is
    /// what it is used as. The error also names the line of the configuration.
    pub fn open(settings: &PluginSettings, kind: PluginKind) -> Result<Library> {
        let Some(file) = settings.checked_file()? else {
            return Err(
                Error::internal("a plugin that has a command is no library").context("key", settings.key("command"))
            );
        };
        let library = Library::load(&file).and_then(|library| {
            library.manifest.used_as(settings, kind, &library.path.display().to_string()).map(|()| library)
        });
        library.map_err(|error| error.context("origin", settings.whence()))
    }

    /// Loads a file that passed the checks of `check_file`. The error names the file, what was expected and what was got.
    pub fn load(file: &PluginFile) -> Result<Library> {
        let path = file.path.as_path();
        let named = |error: Error| error.context("file", path.display());
        let table = table(path).map_err(named)?;
        let functions = checks::functions(table).map_err(named)?;
        let manifest = checks::manifest(functions.manifest).map_err(named)?;
        let manifest = Manifest::parse(&manifest, &path.display().to_string())?;
        functions.check_kind(&manifest).map_err(named)?;
        Ok(Library { path: path.into(), functions, manifest: Arc::new(manifest) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the plugin says about itself.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// What carries the calls of a new instance. `name` is how the configuration calls it; `upward` serves what the
    /// plugin asks of the host, which is refused as unsupported without it.
    pub fn carrier(&self, name: &str, calls: Arc<Calls>, upward: Option<Upward>) -> Arc<dyn Carrier> {
        carrier::LibraryCarrier::new(name, self.functions, calls, upward)
    }
}

/// The address of a plugin's struct, which is valid until the process ends.
#[derive(Clone, Copy)]
struct Table(*const FmPlugin);

// SAFETY: it is the address of read-only data in a library that is never unloaded.
#[allow(unsafe_code)]
unsafe impl Send for Table {}

/// Finds the struct of a library, which is loaded if that has not been done.
fn table(path: &Path) -> Result<*const FmPlugin> {
    static LOADED: OnceLock<Mutex<HashMap<(u64, u64), Table>>> = OnceLock::new();
    if !path.is_absolute() {
        return Err(refused(format!("expected an absolute path, got {}", path.display()), "write the whole path"));
    }
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return Err(static_build());
    }
    let metadata = std::fs::metadata(path).map_err(|error| Error::io("cannot load the plugin", &error))?;
    // By device and number, so that two names of one file are one library. Held while loading: constructors of two
    // libraries never run at once.
    let mut loaded = LOADED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let key = (metadata.dev(), metadata.ino());
    if let Some(table) = loaded.get(&key) {
        return Ok(table.0);
    }
    let table = open(path)?;
    loaded.insert(key, Table(table));
    Ok(table)
}

/// Loads a library, for ever, and finds the one symbol.
#[allow(unsafe_code)]
fn open(path: &Path) -> Result<*const FmPlugin> {
    // SAFETY: this runs the constructors of the library, which is code that the operator has chosen: its file was
    // checked, its owner is the user or root. Nothing can be promised about what it does.
    let handle = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| unloadable(&error))?;
    let found = symbol(&handle, SYMBOL.to_bytes_with_nul());
    let others: Vec<u32> = match found {
        Some(_) => Vec::new(),
        None => OTHER_MAJORS
            .filter(|major| symbol(&handle, format!("fmail_plugin_v{major}\0").as_bytes()).is_some())
            .collect(),
    };
    // Never closed: rule 7, and there is no sound way to do so once its code has run.
    let _ = handle.into_raw();
    found.map(|table| table.cast_const().cast()).ok_or_else(|| no_symbol(&others))
}

/// The address of a symbol.
#[allow(unsafe_code)]
fn symbol(handle: &Handle, name: &[u8]) -> Option<*mut c_void> {
    // SAFETY: the symbol is only taken as an address here; nothing is read from it or called.
    let symbol = unsafe { handle.get::<*mut c_void>(name) }.ok()?;
    Some(symbol.into_raw()).filter(|address| !address.is_null())
}

fn refused(what: impl Into<String>, help: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, what).help(help)
}

fn no_symbol(others: &[u32]) -> Error {
    let symbol = SYMBOL.to_string_lossy();
    let Some(highest) = others.last() else {
        return refused(
            format!("expected the symbol `{symbol}`, got a library without it: this is no plugin of fmail"),
            "name the plugin's own library; one that you build must export the symbol",
        );
    };
    let help = if *highest > ABI_MAJOR {
        "use a newer fmail, or a build of the plugin for this one"
    } else {
        "use a newer version of the plugin"
    };
    let built: Vec<String> = others.iter().map(u32::to_string).collect();
    refused(
        format!(
            "expected the symbol `{symbol}`, got `fmail_plugin_v{highest}`: built for major {}, this fmail speaks {ABI_MAJOR}",
            built.join(" and ")
        ),
        help,
    )
}

fn unloadable(error: &libloading::Error) -> Error {
    // The reason is in the source: the error itself only says which function failed.
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string());
    if text.contains("Dynamic loading not supported") {
        return static_build();
    }
    refused(
        format!("expected a library that can be loaded, got: {text}"),
        "the text is the system's own; a library that it needs may be missing, or be an older one",
    )
}

fn static_build() -> Error {
    refused(
        "expected a dynamically linked fmail, got a static build, which cannot load libraries",
        "set isolation = \"process\" with a program for this plugin, or use a build of fmail for glibc",
    )
}
