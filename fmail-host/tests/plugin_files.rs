//! Which file a name means, and which files are believed.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Place;
use fmail_host::{Check, PluginForm, PluginSearch, Settings, check_file};

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A library in C with this manifest, built with the machine's compiler; it ends the process when it is loaded.
fn library(place: &Place, name: &str, manifest: &str) -> PathBuf {
    let source = format!(
        "#include <stdint.h>\n#include <stdlib.h>\n\
         struct plugin {{ uint64_t magic; uint32_t major, minor, size, reserved; const char *manifest; }};\n\
         __attribute__((visibility(\"default\"))) const struct plugin fmail_plugin_v1 =\n\
         {{ 1, 1, 0, sizeof(struct plugin), 0, {manifest:?} }};\n\
         __attribute__((constructor)) static void loaded(void) {{ abort(); }}\n"
    );
    let (source, path) = (place.write("plugin.c", &source), place.path(name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&path).arg(&source).status();
    assert!(built.expect("cc is needed by these tests").success());
    mode(&path, 0o755);
    path
}

const MANIFEST: &str =
    r#"{"name":"mine","version":"1","kind":"store","config_schema":{"properties":{"size":{"type":"integer"}}}}"#;

#[track_caller]
fn refused(path: &Path, form: Option<PluginForm>, pin: Option<&str>, parts: &[&str]) {
    let refusal = check_file(path, form, pin).unwrap_err();
    assert_eq!(refusal.path, path);
    for part in parts.iter().chain(&["expected ", "got "]) {
        assert!(refusal.reason.contains(part), "`{part}` is not in: {}", refusal.reason);
    }
    assert!(!refusal.help.is_empty());
}

#[test]
fn a_library_of_this_machine_is_believed_and_its_manifest_read_without_loading_it() {
    let place = Place::new();
    let path = library(&place, "p/libfmail_mine.so", MANIFEST);
    let file = check_file(&path, None, None).unwrap();
    assert_eq!((file.path.as_path(), file.form), (path.as_path(), PluginForm::Library));
    let manifest = file.manifest().unwrap().expect("the manifest can be read");
    assert_eq!(manifest.name.as_str(), "mine");
    let stripped = place.path("p/stripped.so");
    fs::copy(&path, &stripped).unwrap();
    assert!(Command::new("strip").arg(&stripped).status().unwrap().success());
    assert!(check_file(&stripped, None, None).unwrap().manifest().unwrap().is_some());
    let broken = library(&place, "p/broken.so", "not json");
    let error = check_file(&broken, None, None).unwrap().manifest().unwrap_err();
    assert!(error.to_string().contains("broken.so") && error.to_string().contains("not JSON"), "{error}");
}

#[test]
fn only_the_owner_may_be_able_to_change_a_file_and_its_directory() {
    let place = Place::new();
    let path = library(&place, "p/libfmail_mine.so", MANIFEST);
    for wrong in [0o775, 0o757, 0o777] {
        mode(&path, wrong);
        refused(&path, None, None, &["only its owner can write", &format!("mode {wrong:04o}")]);
    }
    mode(&path, 0o644);
    assert!(check_file(&path, None, None).is_ok());
    for wrong in [0o770, 0o777, 0o1777] {
        mode(&place.path("p"), wrong);
        refused(&path, None, None, &["a directory that only its owner can write", "/p"]);
    }
    mode(&place.path("p"), 0o755);
    assert!(check_file(&path, None, None).is_ok());
}

#[test]
fn links_are_followed_and_every_directory_on_the_way_is_checked() {
    let place = Place::new();
    let path = library(&place, "real/libfmail_mine.so", MANIFEST);
    place.dir("links/inner");
    let link = place.path("links/inner/libfmail_mine.so");
    symlink("../../real/libfmail_mine.so", &link).unwrap();
    assert_eq!(check_file(&link, None, None).unwrap().path, path);
    mode(&place.path("real"), 0o777);
    refused(&link, None, None, &["directory", "/real", "0777"]);
    mode(&place.path("real"), 0o755);
    mode(&place.path("links"), 0o777);
    refused(&link, None, None, &["directory", "/links"]);
    mode(&place.path("links"), 0o755);
    let round = place.path("links/round.so");
    symlink(&round, &round).unwrap();
    refused(&round, None, None, &["more than 40 links"]);
    refused(&place.path("links/none.so"), None, None, &["is not there"]);
    refused(Path::new("relative/x.so"), None, None, &["an absolute path", "relative/x.so"]);
    refused(&place.path("real"), None, None, &["a regular file", "a directory"]);
    let pipe = place.path("links/pipe.so");
    assert!(Command::new("mkfifo").args(["-m", "644"]).arg(&pipe).status().unwrap().success());
    refused(&pipe, None, None, &["a regular file", "a pipe"]);
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !is_root() {
        // Only root can give files away.
        return;
    }
    let place = Place::new();
    let path = library(&place, "p/libfmail_mine.so", MANIFEST);
    std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
    refused(&path, None, None, &["yours (user 0) or root's", "user 12345"]);
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0
}

#[test]
fn what_is_no_library_of_this_machine_is_refused_with_what_it_is() {
    let place = Place::new();
    let path = library(&place, "p/libfmail_mine.so", MANIFEST);
    let original = fs::read(&path).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = original.clone();
        bytes[at] = byte;
        fs::write(&path, bytes).unwrap();
    };
    changed(18, 243);
    refused(&path, None, None, &["expected a library for", "got one for riscv, 64 bits, little endian"]);
    changed(4, 1);
    refused(&path, None, None, &["64 bits, little endian", "32 bits"]);
    changed(0, b'x');
    refused(&path, None, None, &["a library (ELF)", "xELF"]);
    fs::write(&path, "no").unwrap();
    refused(&path, None, None, &["less than four bytes"]);
    fs::write(&path, "#!/bin/sh\nexit\n").unwrap();
    refused(&path, None, None, &["a library (ELF)", "#!/b"]);
    // Cut off anywhere, it is refused or believed, but never the end of us.
    for length in (0..original.len()).step_by(97) {
        fs::write(&path, &original[..length]).unwrap();
        if let Ok(file) = check_file(&path, None, None) {
            let _ = file.manifest();
        }
    }
    let own = std::env::current_exe().unwrap();
    let copy = place.path("p/program.so");
    fs::copy(own, &copy).unwrap();
    mode(&copy, 0o755);
    refused(&copy, None, None, &["expected a library, got a program"]);
}

#[test]
fn a_program_may_be_run_and_is_no_library() {
    let place = Place::new();
    let path = place.write("p/fmail-plugin-mine", "#!/bin/sh\nexit 1\n");
    mode(&path, 0o644);
    refused(&path, None, None, &["a program that may be run", "0644"]);
    mode(&path, 0o755);
    let file = check_file(&path, None, None).unwrap();
    assert_eq!(file.form, PluginForm::Program);
    assert!(file.manifest().unwrap().is_none());
    let library = library(&place, "p/fmail-plugin-other", MANIFEST);
    refused(&library, None, None, &["expected a program, got a library"]);
}

#[test]
fn the_pinned_hash_is_the_files() {
    let place = Place::new();
    let path = place.write("p/fmail-plugin-mine", "abc");
    mode(&path, 0o755);
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert!(check_file(&path, None, Some(hash)).is_ok());
    assert!(check_file(&path, None, Some(&hash.to_uppercase())).is_ok());
    fs::write(&path, "abd").unwrap();
    refused(&path, None, Some(hash), &[&format!("expected the SHA-256 {hash}"), "got a52d159f"]);
}

fn search(place: &Place, path: &str) -> PluginSearch {
    PluginSearch::new(&place.environment("app", &[("FMAIL_PLUGIN_PATH", path)]), &Settings::default()).unwrap()
}

#[test]
fn the_first_place_wins_and_the_others_are_shadowed() {
    let place = Place::new();
    let (a, b) = (place.path("a"), place.path("b"));
    let first = library(&place, "a/libfmail_my_store.so", MANIFEST);
    let beside = place.write("a/fmail-plugin-my-store", "#!/bin/sh\n");
    mode(&beside, 0o755);
    let later = library(&place, "b/libfmail_my_store.so", MANIFEST);
    let only = place.write("b/fmail-plugin-other", "#!/bin/sh\n");
    place.write("b/libfmail_Bad.so", "");
    place.write("b/README", "");
    let search = search(&place, &format!("{}:{}", a.display(), b.display()));
    let found = search.find(&"my-store".parse().unwrap()).unwrap().unwrap();
    assert_eq!((found.path.clone(), found.form), (first.clone(), PluginForm::Library));
    assert_eq!(found.shadowed, [beside.clone(), later.clone()]);
    assert!(search.find(&"nothing".parse().unwrap()).unwrap().is_none());
    let (all, errors) = search.all();
    assert!(errors.is_empty(), "{errors:?}");
    let told: Vec<(PathBuf, Option<PathBuf>, bool)> =
        all.into_iter().map(|one| (one.path, one.shadowed_by, one.refused.is_some())).collect();
    let expected = [
        (first.clone(), None, false),
        (beside, Some(first.clone()), false),
        (b.join("libfmail_Bad.so"), None, true),
        (later, Some(first), false),
        (only, None, true),
    ];
    assert_eq!(told, expected);
    assert_eq!(search.names(), ["my-store", "other"]);
}

#[test]
fn places_come_in_their_order() {
    let place = Place::new();
    place.write("home/.config/fmail/config.toml", "mail.plugins.path = ['/opt/x', '~/mine']\n");
    let environment = place.environment("app", &[("FMAIL_PLUGIN_PATH", "/p:/q:"), ("XDG_DATA_HOME", "/data")]);
    let settings = Settings::load(&environment, None, &[]).unwrap();
    let places = PluginSearch::new(&environment, &settings).unwrap().places;
    let shown: Vec<String> = places.iter().map(|place| place.directory.display().to_string()).collect();
    let home = place.path("home/mine").display().to_string();
    assert_eq!(shown[..5], ["/opt/x", home.as_str(), "/p", "/q", "/data/fmail/plugins"]);
    assert!(shown[5].ends_with("/lib/fmail/plugins"), "{shown:?}");
    assert_eq!(shown[6..], ["/usr/local/lib/fmail/plugins", "/usr/lib/fmail/plugins"]);
    assert!(places[0].to_string().contains("mail.plugins.path, ") && places[0].to_string().contains("config.toml:1"));
}

#[test]
fn a_check_of_the_configuration_reads_manifests_and_runs_nothing() {
    let place = Place::new();
    let path = library(&place, "home/.local/share/fmail/plugins/libfmail_mine.so", MANIFEST);
    let user = place.write(
        "home/.config/fmail/config.toml",
        "[mail]\nstore = 'mine'\ntransports = ['mine']\n[mail.plugin.mine.config]\nsiz = 1\nsize = 'x'\n\
         [mail.plugin.other]\nfile = '/no/such/file.so'\n[mail.plugin.third]\ncommand = ['false']\n",
    );
    let environment = place.environment("app", &[]);
    let check = Check::of(&environment, None, &[]).unwrap();
    let told: Vec<String> = check.mistakes.iter().map(ToString::to_string).collect();
    for expected in [
        format!("{}:3: `mail.transports` names `mine`, which is a store; expected a transport", user.display()),
        format!("{}:5: `mail.plugin.mine.config.siz` is not a key", user.display()),
        format!("{}:6: `mail.plugin.mine.config.size` is the text \"x\"; allowed is a whole number", user.display()),
        "mail.plugin.other.file (".to_string(),
    ] {
        assert!(told.iter().any(|one| one.contains(&expected)), "{expected} is not in {told:#?}");
    }
    assert_eq!(told.len(), 4, "{told:#?}");
    let plugins: Vec<(&str, bool)> =
        check.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin.unchecked.is_none())).collect();
    assert_eq!(plugins, [("mine", true), ("other", false), ("third", false)]);
    assert_eq!(check.plugins[0].file.as_deref(), Some(path.as_path()));
    let (schema, _) = Settings::schema(&environment, None, &[]).unwrap();
    let mail = &schema["properties"]["mail"]["properties"];
    assert_eq!(mail["plugin"]["properties"]["mine"]["properties"]["config"]["properties"]["size"]["type"], "integer");
    assert_eq!(mail["watch"]["properties"]["events"]["default"], true);
    assert_eq!(mail["gc"]["properties"]["days"]["maximum"], 36500);
}
