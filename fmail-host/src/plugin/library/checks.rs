//! Whether what a library exports is a plugin that this host can use. Nothing of it is called here.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

use fmail_abi::layout::{ABI_MAJOR, FmBytes, FmHost, FmPlugin, MAGIC};
use fmail_api::{Error, ErrorKind, Result};

use crate::plugin::Manifest;
use crate::registry::PluginKind;

/// How large the struct was in 1.0, whose last field is `extension`. It only grows within a major, so every plugin's has at
/// least this. A field that is added later is read only after another look at `size`.
const LEAST_SIZE: u32 = (offset_of!(FmPlugin, extension) + size_of::<*const c_void>()) as u32;
/// No manifest has a reason to be larger; one without an end would be read for ever.
const MAX_MANIFEST: usize = 1_000_000;

/// The functions of a plugin, those that must be there known to be there.
#[derive(Clone, Copy)]
pub struct Functions {
    pub minor: u32,
    pub size: u32,
    pub manifest: *const c_char,
    pub create: extern "C" fn(*const FmHost, u64, FmBytes) -> *mut c_void,
    pub call: extern "C" fn(*mut c_void, u64, FmBytes, FmBytes, FmBytes),
    pub pull: extern "C" fn(*mut c_void, u64, u32),
    pub cancel: extern "C" fn(*mut c_void, u64),
    pub destroy: extern "C" fn(*mut c_void, u64),
    pub done: Option<extern "C" fn(*mut c_void, u64, i32, FmBytes)>,
    pub item: Option<extern "C" fn(*mut c_void, u64, FmBytes) -> i32>,
}

// SAFETY: addresses of code and of read-only data in a library that is never unloaded (rule 7); the functions may be called
// from any thread (rule 5).
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

/// Reads one field.
macro_rules! field {
    ($table:expr, $field:ident) => {
        // SAFETY: see `functions`: the field is covered by what was checked before. Unaligned, since a wrong library
        // may have anything under that name.
        unsafe { std::ptr::addr_of!((*$table).$field).read_unaligned() }
    };
}

/// Checks the struct at the address of the symbol, in the order in which it can be believed: the magic number first, then
/// the major, then the size, and nothing beyond that size.
pub fn functions(table: *const FmPlugin) -> Result<Functions> {
    let magic = field!(table, magic);
    if magic != MAGIC {
        return Err(wrong(
            format!("expected the magic number {MAGIC:#018x}, got {magic:#018x}: the symbol is no plugin's"),
            "build the plugin with fmail_plugin.h or the SDK",
        ));
    }
    let (major, minor) = (field!(table, abi_major), field!(table, abi_minor));
    if major != ABI_MAJOR {
        return Err(wrong(
            format!("expected the ABI's major {ABI_MAJOR}, got {major}.{minor}"),
            "build the plugin with the fmail_plugin.h of this version of fmail",
        ));
    }
    let size = field!(table, size);
    if size < LEAST_SIZE {
        return Err(wrong(
            format!("expected a struct of at least {LEAST_SIZE} bytes, got one of {size}"),
            "`size` must be sizeof(fm_plugin)",
        ));
    }
    let there = |function: &str| {
        wrong(
            format!("expected the function `{function}`, got NULL"),
            "every function must be there, even if it does nothing",
        )
    };
    Ok(Functions {
        minor,
        size,
        manifest: field!(table, manifest),
        create: field!(table, create).ok_or_else(|| there("create"))?,
        call: field!(table, call).ok_or_else(|| there("call"))?,
        pull: field!(table, pull).ok_or_else(|| there("pull"))?,
        cancel: field!(table, cancel).ok_or_else(|| there("cancel"))?,
        destroy: field!(table, destroy).ok_or_else(|| there("destroy"))?,
        done: field!(table, done),
        item: field!(table, item),
    })
}

/// The text of the manifest.
pub fn manifest(start: *const c_char) -> Result<String> {
    if start.is_null() {
        return Err(wrong("expected a manifest, got NULL", "`manifest` must be JSON, ended by a zero byte"));
    }
    let mut bytes = Vec::new();
    loop {
        // SAFETY: `start` is text that a zero byte ends, as the header asks; every byte up to that one can be read, and we
        // stop there. A text without one would be read on, up to the limit: nothing in the library says where it ends.
        match unsafe { start.add(bytes.len()).read() } as u8 {
            0 => break,
            byte => bytes.push(byte),
        }
        if bytes.len() > MAX_MANIFEST {
            return Err(wrong(
                format!("expected a manifest of at most {MAX_MANIFEST} bytes, got more"),
                "`manifest` must be ended by a zero byte",
            ));
        }
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("expected a manifest in UTF-8, got something else at byte {at}"), "write the manifest in UTF-8")
    })
}

impl Functions {
    /// Checks that a plugin that calls the host can be answered.
    pub fn check_kind(&self, manifest: &Manifest) -> Result<()> {
        if manifest.kind == PluginKind::Store {
            return Ok(());
        }
        let missing = match (self.done, self.item) {
            (None, _) => "done",
            (_, None) => "item",
            _ => return Ok(()),
        };
        Err(wrong(
            format!("expected the function `{missing}` in a {}, got NULL", manifest.kind),
            "a plugin that calls the host must take the answers",
        ))
    }
}

fn wrong(what: impl Into<String>, help: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, what).help(help)
}
