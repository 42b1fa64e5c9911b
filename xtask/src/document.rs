//! Tables that commands put into documents, between marks; the rest of a document is written by people.

use std::fs;
use std::path::Path;

use fmail_api::{Error, ErrorKind, Result};

use crate::cargo;
use crate::install::doing;

/// The line behind a table.
pub const END: &str = "<!-- end -->\n";

/// Puts a text between the line `begin` and the next [`END`] of a document of the workspace.
pub fn write(document: &str, begin: &str, text: &str) -> Result<()> {
    let file = cargo::workspace().join(document);
    let old = fs::read_to_string(&file).map_err(doing("reading", &file))?;
    let new = replaced(&old, begin, text).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("{} has no place for the table", file.display())).help(format!(
            "it goes between the lines `{}` and `{}`",
            begin.trim_end(),
            END.trim_end()
        ))
    })?;
    fs::write(&file, new).map_err(doing("writing", &file))
}

fn replaced(old: &str, begin: &str, text: &str) -> Option<String> {
    let (before, rest) = old.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{}\n\n{END}{after}", text.trim_end()))
}

/// The kernel's version without what a distributor or a host appended to it.
pub fn kernel() -> String {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    release.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default().into()
}

/// The type of the file system that holds a directory: that of the longest mount point above it.
pub fn file_system(directory: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounted.filter(|(point, _)| directory.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map_or("unknown file system", |(_, kind)| kind).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let old = format!("# A\n<!-- b -->\nold\n{END}rest\n<!-- b2 -->\nkept\n{END}");
        let new = replaced(&old, "<!-- b -->\n", "new\n").unwrap();
        assert_eq!(new, format!("# A\n<!-- b -->\n\nnew\n\n{END}rest\n<!-- b2 -->\nkept\n{END}"));
        // A second time changes nothing.
        assert_eq!(replaced(&new, "<!-- b -->\n", "new").as_ref(), Some(&new));
        assert_eq!(replaced(&old, "<!-- c -->\n", "new"), None);
        assert_eq!(replaced("<!-- b -->\nno end", "<!-- b -->\n", "new"), None);
    }
}
