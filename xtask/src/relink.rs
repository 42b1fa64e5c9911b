//! The links of the documents, from where these stand in the repository to where they are installed.

use std::path::{Component, Path, PathBuf};

/// Where the documents are installed, below the prefix.
pub const DOCUMENTS: &str = "share/doc/fmail";
/// The header of plugins: in the repository, and below the prefix.
pub const HEADER: (&str, &str) = ("plugins/sdk/include/fmail_plugin.h", "include/fmail_plugin.h");
/// Documents at the top that are installed.
pub const TOP: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Where a file of the repository is installed, if it is. What is below `docs` stands at the top of the documents, and
/// the examples keep their place among the sources.
pub fn installed(file: &Path) -> Option<PathBuf> {
    let documents = Path::new(DOCUMENTS);
    match file.strip_prefix("docs") {
        Ok(below) => Some(documents.join(below)),
        Err(_) if file == Path::new(HEADER.0) => Some(HEADER.1.into()),
        Err(_) if TOP.iter().any(|name| file == Path::new(name)) => Some(documents.join(file)),
        Err(_) if file.starts_with("plugins/examples") && file.extension().is_none_or(|end| end != "toml") => {
            Some(documents.join(file))
        }
        Err(_) => None,
    }
}

/// The text of a document with every link to a file as it is after the installation. A link to what is not installed
/// becomes plain text; what leads to no file of the repository is none of ours, such as a piece of a program.
pub fn relinked(text: &str, document: &Path, is_there: impl Fn(&Path) -> bool) -> String {
    let here = installed(document).unwrap_or_default();
    let mut done = String::new();
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let (before, after) = (&rest[..middle], &rest[middle + 2..]);
        let (Some(start), Some(end)) = (before.rfind('['), after.find(')')) else { break };
        let (target, label) = (&after[..end], &before[start + 1..]);
        let (file, heading) = target.find('#').map_or((target, ""), |at| target.split_at(at));
        done.push_str(&before[..start]);
        let place = normal(&document.parent().unwrap_or(Path::new("")).join(file));
        let elsewhere = file.is_empty() || target.contains("://") || !is_there(&place);
        match installed(&place) {
            _ if elsewhere => done.push_str(&format!("[{label}]({target})")),
            Some(place) => done.push_str(&format!("[{label}]({}{heading})", relative(&here, &place).display())),
            None => done.push_str(label),
        }
        rest = &after[end + 1..];
    }
    done + rest
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The way from one file to another.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let from: Vec<_> = from.parent().unwrap_or(Path::new("")).components().collect();
    let to: Vec<_> = to.components().collect();
    let common = from.iter().zip(&to).take_while(|(one, two)| one == two).count();
    let up = std::iter::repeat_n(Component::ParentDir, from.len() - common);
    up.chain(to[common..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_what_is_installed_or_nowhere() {
        let check = |document: &str, text: &str, expected: &str| {
            assert_eq!(relinked(text, Path::new(document), |file| file != Path::new("docs/request")), expected);
        };
        check(
            "README.md",
            "see [x](docs/hooks.md#a), [y](docs/plugins/abi.md).",
            "see [x](hooks.md#a), [y](plugins/abi.md).",
        );
        check("README.md", "[ARCHITECTURE.md](ARCHITECTURE.md): how", "ARCHITECTURE.md: how");
        check(
            "docs/plugins/abi.md",
            "[h](../../plugins/sdk/include/fmail_plugin.h)",
            "[h](../../../../include/fmail_plugin.h)",
        );
        check("docs/plugins/abi.md", "[c](../../plugins/examples/c-memory/store.c)", "[c](examples/c-memory/store.c)");
        check(
            "docs/plugins/abi.md",
            "[s](../../fmail-api/src/store.rs): [w](https://a.b/c), [l](#here)",
            "s: [w](https://a.b/c), [l](#here)",
        );
        check("docs/chat.md", "METHODS[method](request)", "METHODS[method](request)");
        check("docs/chat.md", "an array [a] and `x](` unfinished", "an array [a] and `x](` unfinished");
    }
}
