//! Names that look alike, for the moment when somebody mistypes one.

use std::fmt::Display;

/// More suggestions than this help nobody.
const MOST: usize = 3;

/// The names among `known` that `name` may have been meant to be, the nearest first, at most three.
pub fn near_names<N: Display + Ord>(name: &N, known: impl IntoIterator<Item = N>) -> Vec<N> {
    let text = name.to_string();
    let distance = |other: &N| {
        let other = other.to_string();
        let distance = strsim::damerau_levenshtein(&text, &other);
        looks_alike(&text, &other, distance).then_some(distance)
    };
    let others = known.into_iter().filter(|other| other != name);
    let mut near: Vec<(usize, N)> = others.filter_map(|other| Some((distance(&other)?, other))).collect();
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
    use fmail_api::AgentName;

    use super::*;

    #[test]
    fn the_nearest_comes_first_and_strangers_not_at_all() {
        let known = ["reviewer", "reviewer-2", "architect", "coder-1"].map(|name| name.parse::<AgentName>().unwrap());
        let near = near_names(&"reviwer".parse().unwrap(), known.clone());
        assert_eq!(near.first().map(AgentName::as_str), Some("reviewer"));
        assert!(!near.iter().any(|name| name.as_str() == "architect"));
        assert_eq!(near_names(&"coder".parse().unwrap(), known.clone())[0].as_str(), "coder-1");
        assert!(near_names(&"zebra".parse().unwrap(), known).is_empty());
    }
}
