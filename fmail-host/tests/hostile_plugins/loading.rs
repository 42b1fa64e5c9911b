//! Files that are not loaded, or loaded and not believed.

use std::os::unix::fs::PermissionsExt;

use fmail_api::ErrorKind;
use fmail_host::plugin::Library;
use fmail_host::{PluginFile, PluginForm};

use crate::kit::{Hostile, echo, good_goes_on};

#[track_caller]
fn check(source: &str, parts: &[&str]) {
    let hostile = Hostile::new(source, "hostile");
    let error = hostile.refused(hostile.open(), parts);
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    // A second look finds the same.
    hostile.refused(hostile.open(), parts);
}

#[test]
fn wrong_magic() {
    check("wrong_magic", &["expected the magic number 0x314e4c504c414d46, got 0x1122334455667788", "fmail_plugin.h"]);
}

#[test]
fn wrong_major() {
    check("wrong_major", &["expected the ABI's major 1, got 7.0", "fmail_plugin.h of this version"]);
}

#[test]
fn other_major() {
    let built = "got `fmail_plugin_v2`: built for major 2, this fmail speaks 1";
    check("other_major", &["expected the symbol `fmail_plugin_v1`", built, "use a newer fmail"]);
}

#[test]
fn short_struct() {
    check("short_struct", &["expected a struct of at least 96 bytes, got one of 32", "sizeof(fm_plugin)"]);
}

#[test]
fn missing_symbol() {
    check("missing_symbol", &["expected the symbol `fmail_plugin_v1`, got a library without it", "no plugin of fmail"]);
}

#[test]
fn a_library_that_needs_what_nobody_has_fails_when_it_is_loaded() {
    check(
        "missing_symbol_needed",
        &["expected a library that can be loaded, got", "nobody_has_this", "may be missing"],
    );
}

#[test]
fn missing_function() {
    check("missing_function", &["expected the function `pull`, got NULL", "every function must be there"]);
}

#[test]
fn no_manifest() {
    check("no_manifest", &["expected a manifest, got NULL", "ended by a zero byte"]);
}

#[test]
fn manifest_not_json() {
    check("manifest_not_json", &["the manifest is not JSON", "name = hostile", "author"]);
}

#[test]
fn manifest_not_utf8() {
    check("manifest_not_utf8", &["expected a manifest in UTF-8, got something else at byte 9"]);
}

#[test]
fn unknown_capability() {
    check("unknown_capability", &["capability \"teleport\", which a store does not have", "allowed are"]);
}

#[test]
fn a_relay_that_cannot_be_answered() {
    check("relay_without_done", &["expected the function `done` in a relay, got NULL", "must take the answers"]);
}

#[test]
fn wrong_kind() {
    let parts = ["expected a store, since `mail.store` names it, got a relay", "name it in `mail.relays` instead"];
    check("wrong_kind", &parts);
}

#[test]
fn another_plugin_than_the_one_that_is_used() {
    let hostile = Hostile::with("good", "hostile", "use = \"sqlite\"\n");
    hostile.refused(hostile.open(), &["expected the plugin `sqlite`, got `hostile`", "must be the same"]);
}

/// The header of an ELF file for a machine that this is not.
#[test]
fn wrong_architecture() {
    const MACHINE: usize = 18;
    let good = Hostile::new("good", "hostile");
    let mut bytes = std::fs::read(&good.file).unwrap();
    let other: u16 = if cfg!(target_arch = "s390x") { 62 } else { 22 };
    bytes[MACHINE..MACHINE + 2].copy_from_slice(&other.to_ne_bytes());
    let hostile = Hostile::file(&bytes, "hostile");
    hostile.refused(hostile.open(), &["expected a library for ", ", got one for ", "for this machine"]);
}

#[test]
fn not_a_library() {
    let hostile = Hostile::file(b"#!/bin/sh\necho hello\n", "hostile");
    let parts =
        ["expected a library (ELF), got a file that begins with \"#!/b\"", "build the plugin as a shared library"];
    hostile.refused(hostile.open(), &parts);
}

#[test]
fn a_library_that_was_cut() {
    let good = Hostile::new("good", "hostile");
    let bytes = std::fs::read(&good.file).unwrap();
    let hostile = Hostile::file(&bytes[..bytes.len() / 3], "hostile");
    let first = format!("expected a whole library, got the first {} bytes of one", bytes.len() / 3);
    hostile.refused(hostile.open(), &[&first, "build the plugin"]);
}

#[test]
fn world_writable() {
    let hostile = Hostile::new("good", "hostile");
    std::fs::set_permissions(&hostile.file, std::fs::Permissions::from_mode(0o757)).unwrap();
    let chmod = format!("chmod go-w {}", hostile.file.display());
    hostile.refused(hostile.open(), &["expected a file that only its owner can write, got mode 0757", &chmod]);
}

#[test]
fn another_file_than_the_pinned_one() {
    let hostile = Hostile::with("good", "hostile", &format!("sha256 = \"{}\"\n", "0".repeat(64)));
    hostile.refused(hostile.open(), &["expected the SHA-256 0000", ", got ", "write the new SHA-256"]);
}

#[test]
fn the_loader_itself_takes_no_path_that_would_be_searched_for() {
    let file = PluginFile { path: "libfmail_hostile.so".into(), form: PluginForm::Library };
    let Err(error) = Library::load(&file) else { panic!("a relative path was loaded") };
    assert!(error.to_string().contains("expected an absolute path, got libfmail_hostile.so"), "{error}");
}

/// Two sections, and two names of the file, are one library: its static variables are the same.
#[test]
fn a_file_is_loaded_once() {
    let first = Hostile::new("create_twice", "first");
    let second = Hostile::new("create_twice", "second");
    std::fs::remove_file(&second.file).unwrap();
    std::fs::hard_link(&first.file, &second.file).unwrap();
    let paths = |hostile: &Hostile| {
        hostile.start().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(hostile.file.to_str().unwrap())).count()
    };
    assert!(paths(&first) > 0);
    assert_eq!(paths(&second), 0, "the second name was loaded again");
    good_goes_on();
}

#[test]
fn what_the_search_finds_must_be_what_its_file_name_says() {
    let hostile = Hostile::new("good", "other");
    let directory = hostile.place.dir("plugins");
    std::fs::copy(&hostile.file, directory.join("libfmail_other.so")).unwrap();
    let config = format!("[mail]\nstore = \"other\"\n[mail.plugins]\npath = [{directory:?}]\n");
    hostile.place.write("home/.config/fmail/config.toml", &config);
    let Err(error) = hostile.open() else { panic!("another plugin was loaded") };
    for part in ["libfmail_other.so", "expected the plugin `other`, got `hostile`", "found in"] {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    let hostile = Hostile::new("good", "hostile");
    assert_eq!(echo(&hostile.start().unwrap(), "x").unwrap(), "x");
}
