//! Names that look alike, for the moment when somebody mistypes one.

use fmail_api::AgentName;

/// More suggestions than this help nobody.
const MOST: usize = 3;

/// The names among `known` that `name` may have been meant to be, the nearest first, at most three.
pub fn near_names(name: &AgentName, known: impl IntoIterator<Item = AgentName>) -> Vec<AgentName> {
    let mut near: Vec<(usize, AgentName)> = known
        .into_iter()
        .filter(|other| other != name)
        .map(|other| (strsim::damerau_levenshtein(name.as_str(), other.as_str()), other))
        .filter(|(distance, other)| looks_alike(name.as_str(), other.as_str(), *distance))
        .collect();
    near.sort();
    near.into_iter().take(MOST).map(|(_, other)| other).collect()
}

/// A third of the letters may differ; or one is the beginning of the other, as `coder` is of `coder-1`.
fn looks_alike(name: &str, other: &str, distance: usize) -> bool {
    let shorter = name.len().min(other.len());
    distance <= (shorter / 3).max(1) || (shorter >= 3 && (name.starts_with(other) || other.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first_and_strangers_not_at_all() {
        let known = ["reviewer", "reviewer-2", "architect", "coder-1"].map(|name| name.parse().unwrap());
        let near = near_names(&"reviwer".parse().unwrap(), known.clone());
        assert_eq!(near.first().map(AgentName::as_str), Some("reviewer"));
        assert!(!near.iter().any(|name| name.as_str() == "architect"));
        assert_eq!(near_names(&"coder".parse().unwrap(), known.clone())[0].as_str(), "coder-1");
        assert!(near_names(&"zebra".parse().unwrap(), known).is_empty());
    }
}
