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
    let mut names: Vec<String> = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(String::from).into();
    for directory in ["docs", "docs/plugins"] {
        let entries = fs::read_dir(repository().join(directory)).unwrap();
        let files = entries.map(|entry| format!("{directory}/{}", entry.unwrap().file_name().to_string_lossy()));
        names.extend(files.filter(|name| name.ends_with(".md")));
    }
    for name in &names {
        let text = document(name);
        let directory = repository().join(name).parent().map(Path::to_path_buf).unwrap_or_default();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_elsewhere = link.contains("://");
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { repository().join(name) } else { directory.join(file) };
            assert!(is_elsewhere || target.exists(), "{name}: {link} is not there");
            if !is_elsewhere && !heading.is_empty() {
                let headings = headings(&fs::read_to_string(&target).unwrap());
                assert!(
                    headings.iter().any(|known| known == heading),
                    "{name}: {link} has no such heading: {headings:?}"
                );
            }
        }
    }
}

/// The names by which links reach the headings of a document.
fn headings(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    lines.map(|line| line.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn the_benchmarks_have_a_place_for_each_table() {
    let text = document("docs/benchmarks.md");
    for part in xtask::bench::Part::ALL {
        let begin = text.find(&part.mark()).unwrap_or_else(|| panic!("no place for {}", part.name()));
        let rest = &text[begin + part.mark().len()..];
        let end = rest.find("<!-- end -->\n").unwrap_or_else(|| panic!("no end of {}", part.name()));
        assert!(!rest[..end].contains("<!-- written by"), "the end of {} is that of another", part.name());
        assert!(rest[..end].contains("| measurement "), "{} has no table", part.name());
    }
}
