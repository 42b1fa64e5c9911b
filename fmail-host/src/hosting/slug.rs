//! Short names for projects, as Agent Mail makes them from paths.

use fmail_api::hex_sha256;

/// What is left of a path in which nothing could stay.
const NAMELESS: &str = "project";
/// How much of the hash is added when a name is taken, and when that is taken too.
const HASH_LENGTHS: [usize; 3] = [8, 16, 64];

/// The name of a path: in lower case, with one hyphen for everything that is neither a letter from a to z nor a digit.
pub fn slug(path: &str) -> String {
    let mut slug = String::new();
    for c in path.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    if slug.is_empty() { NAMELESS.into() } else { slug }
}

/// The names that a project may get, in the order in which they are tried: the name of its path, and that with ever more
/// of the hash of what makes the project itself. Many paths have one name, so the first may be another project's.
pub fn candidates(path: &str, identity: &str) -> impl Iterator<Item = String> {
    let (slug, hash) = (slug(path), hex_sha256(identity.as_bytes()));
    let hashed = HASH_LENGTHS.map(|length| format!("{slug}-{}", &hash[..length]));
    std::iter::once(slug).chain(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_path() {
        for (path, name) in [
            ("/data/projects/brenner_bot", "data-projects-brenner-bot"),
            ("/col/a-b", "col-a-b"),
            ("/COL/A_B", "col-a-b"),
            ("/col/a/b", "col-a-b"),
            ("/home/user/my project/", "home-user-my-project"),
            ("/--a--", "a"),
            ("/", "project"),
            ("/\u{65e5}\u{672c}", "project"),
            ("/caf\u{e9}/x", "caf-x"),
        ] {
            assert_eq!(slug(path), name, "{path}");
        }
    }

    #[test]
    fn the_candidates_of_two_projects_part_at_the_second() {
        let one: Vec<String> = candidates("/col/a-b", "one").collect();
        let two: Vec<String> = candidates("/col/a/b", "two").collect();
        assert_eq!(one[0], two[0]);
        assert!(one[1..].iter().all(|name| !two.contains(name)));
        assert_eq!(one[1].len(), "col-a-b".len() + 9);
    }
}
