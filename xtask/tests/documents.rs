//! The documents at the top of the repository say what the code does.

use std::fs;
use std::path::{Path, PathBuf};

use fmail_api::ErrorKind;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_readme_lists_every_exit_code() {
    let readme = document("README.md");
    for kind in ErrorKind::ALL {
        let row = format!("| {} | `{}` |", kind.exit_code(), kind.code());
        assert!(readme.contains(&row), "README.md has no row `{row}`");
    }
}

#[test]
fn every_link_to_a_file_leads_somewhere() {
    for name in [
        "README.md",
        "CONTRIBUTING.md",
        "docs/install.md",
        "docs/benchmarks.md",
        "docs/reservations.md",
        "docs/mailboxes.md",
    ] {
        let text = document(name);
        let directory = repository().join(name).parent().map(Path::to_path_buf).unwrap_or_default();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_file = !link.contains("://") && !link.starts_with('#');
            assert!(!is_file || directory.join(link).exists(), "{name}: {link} is not there");
        }
    }
}

#[test]
fn the_benchmarks_have_a_place_for_each_table() {
    let text = document("docs/benchmarks.md");
    for mark in ["`cargo xtask bench --write`", "`cargo xtask bench --plugins --write`"] {
        let begin = text.find(&format!("<!-- written by {mark} -->\n")).expect(mark);
        assert!(text[begin..].contains("<!-- end -->\n"));
    }
}
