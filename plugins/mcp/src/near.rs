//! Names that look alike, for the moment when somebody mistypes one.

use fmail_api::HostedProject;

/// More suggestions than this help nobody.
const MOST: usize = 3;

/// The names among `known` that `name` may have been meant to be, the nearest first; capitals do not matter.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<(usize, &str)> =
        known.into_iter().filter_map(|other| Some((distance(name, other)?, other))).collect();
    found.sort_unstable();
    found.into_iter().take(MOST).map(|(_, other)| other).collect()
}

/// The projects that a client may have meant by a path, a slug, or only the last part of a path; the nearest first.
pub(crate) fn near_projects<'a>(wanted: &str, known: &'a [HostedProject]) -> Vec<&'a HostedProject> {
    let nearest = |project: &HostedProject| {
        let distances = [
            distance(wanted, &project.key),
            distance(wanted, &project.slug),
            distance(last_part(wanted), last_part(&project.key)),
        ];
        distances.into_iter().flatten().min()
    };
    let mut found: Vec<(usize, &str, &HostedProject)> =
        known.iter().filter_map(|project| Some((nearest(project)?, &*project.key, project))).collect();
    found.sort_unstable_by_key(|(distance, key, _)| (*distance, *key));
    found.into_iter().take(MOST).map(|(_, _, project)| project).collect()
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// How far two names are from each other, unless they have nothing to do with each other. A single letter is like no other.
fn distance(name: &str, other: &str) -> Option<usize> {
    let (name, other) = (plain(name), plain(other));
    let distance = strsim::damerau_levenshtein(&name, &other);
    let shorter = name.chars().count().min(other.chars().count());
    let begins = shorter >= 3 && (name.starts_with(&other) || other.starts_with(&name));
    let most = if shorter < 2 { 0 } else { (shorter / 3).max(1) };
    (distance <= most && shorter > 0 || begins).then_some(distance)
}

/// The letters alone, and only so many that a comparison stays cheap.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '/')).take(200).flat_map(char::to_lowercase).collect()
}

/// `'A', 'B'`
pub(crate) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first_and_strangers_not_at_all() {
        let known = ["GreenDog", "BlueMountain", "GreenDoor", "limit"];
        assert_eq!(near("GreenDogg", known), ["GreenDog", "GreenDoor"]);
        assert_eq!(near("greendog", known)[0], "GreenDog");
        assert_eq!(near("limt", known), ["limit"]);
        assert!(near("Zebra", known).is_empty());
    }

    fn project(key: &str, slug: &str) -> HostedProject {
        let created = "2026-01-10T15:30:00Z".parse().unwrap();
        HostedProject { id: "proj".into(), root: key.into(), key: key.into(), slug: slug.into(), created, new: false }
    }

    #[test]
    fn a_project_is_near_by_its_slug_by_the_last_part_of_its_path_and_with_other_hyphens() {
        let known = [
            project("/data/projects/brenner_bot", "data-projects-brenner-bot"),
            project("/home/me/app", "home-me-app"),
            project("/", "project"),
        ];
        let near = |wanted: &str| -> Vec<&str> { near_projects(wanted, &known).iter().map(|one| &*one.key).collect() };
        for wanted in ["brenner_bot", "brenner-bot", "Brenner_Bto", "data-projects-brenner_bot", "/src/brenner-bot"] {
            assert_eq!(near(wanted), ["/data/projects/brenner_bot"], "{wanted}");
        }
        assert_eq!(near("/home/me/ap"), ["/home/me/app"]);
        assert_eq!(near("app"), ["/home/me/app"]);
        for wanted in ["/x", "/", "x", "", "/zebra"] {
            assert_eq!(near(wanted), [""; 0], "{wanted}");
        }
    }
}
