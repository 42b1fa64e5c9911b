//! Paths and patterns as people write them: relative to where they stand.
//!
//! Reservations are kept relative to the project's root. A pattern on the command line begins with names that the current
//! directory gives a meaning to, up to the first name with a wildcard; only these are resolved, the rest is a pattern.

use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};
use fmail_core::PathPattern;

use crate::session::Place;

/// The characters that have a meaning in patterns.
const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '\\'];

/// The pattern that `text` means in the current directory, relative to the project's root.
///
/// What is a directory on disk covers everything below, whatever its name looks like.
pub(crate) fn pattern(place: &Place, text: &str) -> Result<String> {
    if text.is_empty() || text.starts_with('!') {
        // What is wrong with it the pattern itself says best.
        return text.parse::<PathPattern>().map(|pattern| pattern.to_string());
    }
    let (directory, rest) = resolved(&place.environment.cwd, text);
    let inside = inside(place, &directory)?.ok_or_else(|| outside(place, text))?;
    let named = inside.to_str().ok_or_else(|| {
        Error::invalid(format!("`{}` is not UTF-8 text, and cannot be written in a pattern", inside.display()))
            .help("reserve a directory above it")
    })?;
    let written = match (named.is_empty(), rest.is_empty()) {
        (true, true) => "**".into(),
        (true, false) => rest.to_string(),
        (false, true) if text.ends_with('/') => format!("{}/", escaped(named)),
        (false, true) => escaped(named),
        (false, false) => format!("{}/{rest}", escaped(named)),
    };
    let pattern: PathPattern = written.parse()?;
    let below = |plain: String| Path::new(&plain).strip_prefix(&inside).map(Path::to_path_buf).ok();
    match pattern.plain_path().and_then(below) {
        Some(below) if directory.join(&below).is_dir() => Ok(format!("{pattern}/").parse::<PathPattern>()?.to_string()),
        _ => Ok(pattern.to_string()),
    }
}

/// The directory or file that the beginning of a pattern names, and what is left of the pattern.
fn resolved<'a>(cwd: &Path, text: &'a str) -> (PathBuf, &'a str) {
    let (mut directory, mut rest) = match text.strip_prefix('/') {
        Some(rest) => (PathBuf::from("/"), rest),
        None => (cwd.to_path_buf(), text),
    };
    while !rest.is_empty() {
        let (segment, behind) = rest.split_once('/').unwrap_or((rest, ""));
        match segment {
            "" | "." => {}
            ".." => drop(directory.pop()),
            _ if segment.contains(SPECIAL) => break,
            _ => directory.push(segment),
        }
        rest = behind;
    }
    (directory, rest)
}

/// The place in the project. Somebody who writes a whole path may write it through links, which the project's root is
/// known without.
fn inside(place: &Place, path: &Path) -> Result<Option<PathBuf>> {
    if let Some(found) = place.project.place_of(path)? {
        return Ok(Some(found));
    }
    for above in path.ancestors() {
        if let (Ok(real), Ok(below)) = (above.canonicalize(), path.strip_prefix(above)) {
            return place.project.place_of(&real.components().chain(below.components()).collect::<PathBuf>());
        }
    }
    Ok(None)
}

fn outside(place: &Place, text: &str) -> Error {
    Error::invalid(format!("`{text}` is outside the project in {}", place.project.root.display())).help(
        "name paths inside the project, relative to the current directory; `fmail whoami` tells which project it is",
    )
}

/// The path as a pattern that covers it and nothing that only looks like it.
fn escaped(path: &str) -> String {
    let mut text = String::new();
    for (place, character) in path.chars().enumerate() {
        if SPECIAL.contains(&character) || (place == 0 && character == '!') {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, directory: &str, rest: &str) {
        assert_eq!(resolved(Path::new("/p/sub"), text), (PathBuf::from(directory), rest), "{text}");
    }

    #[test]
    fn names_are_resolved_up_to_the_first_wildcard() {
        check("a.rs", "/p/sub/a.rs", "");
        check("./a//b/", "/p/sub/a/b", "");
        check("../lib/*.rs", "/p/lib", "*.rs");
        check("a/../../b", "/p/b", "");
        check("*/../b", "/p/sub", "*/../b");
        check("{a/x,b}/c", "/p/sub", "{a/x,b}/c");
        check("/p/x/**", "/p/x", "**");
        check("..", "/p", "");
        check("../../../..", "/", "");
    }

    #[test]
    fn a_path_with_special_characters_covers_itself_alone() {
        for path in ["app/[id]/page.tsx", "a*b", "{x,y}/z", "!x", "back\\slash", "a?b", "]"] {
            let pattern: PathPattern = escaped(path).parse().unwrap();
            assert!(pattern.matches(path), "{path}");
            assert_eq!(pattern.plain_path().as_deref(), Some(path));
        }
        assert!(!escaped("a*b").parse::<PathPattern>().unwrap().matches("axb"));
    }
}
