//! Names that look alike, for the moment when somebody mistypes one.

/// More suggestions than this help nobody.
const MOST: usize = 3;

/// The names among `known` that `name` may have been meant to be, the nearest first; capitals do not matter.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = plain(name);
    let distance = |other: &str| {
        let other = plain(other);
        let distance = strsim::damerau_levenshtein(&wanted, &other);
        let shorter = wanted.chars().count().min(other.chars().count());
        let begins = shorter >= 3 && (wanted.starts_with(&other) || other.starts_with(&wanted));
        (distance <= (shorter / 3).max(1) || begins).then_some(distance)
    };
    let mut found: Vec<(usize, &str)> = known.into_iter().filter_map(|other| Some((distance(other)?, other))).collect();
    found.sort_unstable();
    found.into_iter().take(MOST).map(|(_, other)| other).collect()
}

/// The letters alone, and only so many that a comparison stays cheap.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).take(200).flat_map(char::to_lowercase).collect()
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
}
