//! Installing and taking away again, with the real program, in a directory of the test.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn xtask(arguments: &[&str], prefix: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).arg("--prefix").arg(prefix).output();
    output.expect("xtask starts")
}

fn succeeds(arguments: &[&str], prefix: &Path) {
    let output = xtask(arguments, prefix);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Every file and directory below a directory, relative to it.
fn tree(directory: &Path) -> BTreeSet<PathBuf> {
    fn collect(directory: &Path, top: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(top).unwrap().to_path_buf());
            if path.is_dir() {
                collect(&path, top, found);
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(directory, directory, &mut found);
    found
}

#[test]
fn install_puts_everything_in_its_usual_place_and_uninstall_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("new-prefix");
    succeeds(&["install", "--debug"], &prefix);

    for file in [
        "bin/fmail",
        "bin/forged",
        "bin/fmail-plugin-check",
        "bin/fmail-gc-mail",
        "share/man/man1/fmail.1",
        "share/man/man1/fmail-send.1",
        "share/man/man1/fmail-watch.1",
        "share/bash-completion/completions/fmail",
        "share/zsh/site-functions/_fmail",
        "share/fish/vendor_completions.d/fmail.fish",
        "share/man/man1/forged.1",
        "share/man/man1/forged-status.1",
        "share/man/man1/forged-stop.1",
        "share/bash-completion/completions/forged",
        "share/zsh/site-functions/_forged",
        "share/fish/vendor_completions.d/forged.fish",
        "include/fmail_plugin.h",
        "lib/fmail/plugins/libfmail_sqlite.so",
        "lib/fmail/plugins/libfmail_exec.so",
        "lib/fmail/plugins/libfmail_chat.so",
        "share/doc/fmail/README.md",
        "share/doc/fmail/plugins/guide.md",
        "share/fmail/install-manifest.txt",
    ] {
        assert!(fs::metadata(prefix.join(file)).is_ok_and(|metadata| metadata.len() > 0), "{file}");
    }
    let plugins = Command::new(prefix.join("bin/fmail")).args(["plugin", "list", "--json"]).output().unwrap();
    let plugins = String::from_utf8_lossy(&plugins.stdout).into_owned();
    for name in ["sqlite", "exec", "chat", "ws", "http", "mirror"] {
        assert!(plugins.contains(&format!("lib/fmail/plugins/libfmail_{name}.so")), "{name}: {plugins}");
    }
    let manifest = fs::read_to_string(prefix.join("share/fmail/install-manifest.txt")).unwrap();
    assert!(!manifest.contains(scratch.path().to_str().unwrap()), "the list does not depend on the place");

    let version = Command::new(prefix.join("bin/fmail-gc-mail")).arg("--version").output().unwrap();
    assert!(version.status.success() && version.stdout.starts_with(b"fmail-gc-mail "), "{version:?}");
    for name in ["fmail", "forged"] {
        let run = |arguments: &[&str]| Command::new(prefix.join("bin").join(name)).args(arguments).output().unwrap();
        let version = run(&["--version"]);
        assert!(version.status.success() && version.stdout.starts_with(format!("{name} ").as_bytes()));
        let script = fs::read(prefix.join("share/bash-completion/completions").join(name)).unwrap();
        let printed = run(&["completions", "bash"]).stdout;
        assert_eq!(script.trim_ascii(), printed.trim_ascii(), "the program prints what is installed");
    }

    let documents = tree(&prefix).into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"));
    for document in documents.map(|file| prefix.join(file)) {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_file = file.contains('/') || file.ends_with(".md");
            let elsewhere = !is_file || link.contains("://");
            assert!(elsewhere || document.parent().unwrap().join(file).exists(), "{}: {link}", document.display());
        }
    }

    // The whole tree can be staged and moved.
    let moved = scratch.path().join("moved");
    fs::rename(&prefix, &moved).unwrap();
    succeeds(&["uninstall"], &moved);
    assert_eq!(tree(scratch.path()), BTreeSet::new());
}

#[test]
fn uninstall_keeps_what_was_there_before_and_what_was_added() {
    let prefix = tempfile::tempdir().unwrap();
    fs::create_dir_all(prefix.path().join("share/man")).unwrap();
    fs::write(prefix.path().join("share/other"), "not ours").unwrap();
    let before = tree(prefix.path());

    succeeds(&["install", "--debug"], prefix.path());
    fs::write(prefix.path().join("lib/fmail/plugins/mine.so"), "added by the user").unwrap();
    succeeds(&["uninstall"], prefix.path());

    let added = ["lib", "lib/fmail", "lib/fmail/plugins", "lib/fmail/plugins/mine.so"].map(PathBuf::from);
    assert_eq!(tree(prefix.path()), &before | &BTreeSet::from(added));
    let again = xtask(&["uninstall"], prefix.path());
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("no installation"));
}

#[test]
fn a_second_install_replaces_files_whole_and_removes_what_it_no_longer_has() {
    let prefix = tempfile::tempdir().unwrap();
    succeeds(&["install", "--debug"], prefix.path());
    let first = tree(prefix.path());
    let program = prefix.path().join("bin/fmail");
    let inode = fs::metadata(&program).unwrap().ino();

    let stale = prefix.path().join("share/doc/fmail/FORMER.md");
    fs::write(&stale, "from an earlier version").unwrap();
    let manifest = prefix.path().join("share/fmail/install-manifest.txt");
    let list = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, list + "file share/doc/fmail/FORMER.md\n").unwrap();

    succeeds(&["install", "--debug"], prefix.path());
    assert_ne!(fs::metadata(&program).unwrap().ino(), inode, "a running program keeps its own file");
    assert_eq!(tree(prefix.path()), first);
    succeeds(&["uninstall"], prefix.path());
    assert_eq!(tree(prefix.path()), BTreeSet::new());
}
