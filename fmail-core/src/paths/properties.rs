//! What holds for every pattern, checked against the slow reference and against all short paths.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;

use super::reference::covers;
use super::{PathPattern, common};

/// All paths of up to five characters from a small alphabet.
static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut texts = vec![String::new()];
    let mut longest = texts.clone();
    for _ in 0..5 {
        longest = longest.iter().flat_map(|text| "ab./".chars().map(move |last| format!("{text}{last}"))).collect();
        texts.extend_from_slice(&longest);
    }
    texts.retain(|text| text.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
    texts
});

/// Pieces that make patterns which say something about these paths.
const PIECES: &[&str] =
    &["a", "b", "a", "b", ".", "/", "*", "?", "/**/", "**/", "[ab]", "[!a]", "[^.]", "[.-a]", "[.]", "*.", "\\*", "./"];

fn braces(piece: impl Strategy<Value = String>, alternatives: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let alternative = vec(piece, 0..3).prop_map(|pieces| pieces.concat());
    vec(alternative, alternatives).prop_map(|list| format!("{{{}}}", list.join(",")))
}

fn text() -> impl Strategy<Value = String> {
    let leaf = || proptest::sample::select(PIECES).prop_map(String::from);
    let nested = braces(prop_oneof![leaf(), braces(leaf(), 2..4)], 2..4);
    let piece = prop_oneof![20 => leaf(), 3 => braces(leaf(), 2..4), 1 => nested, 1 => braces(leaf(), 1..2)];
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

fn pattern() -> impl Strategy<Value = PathPattern> {
    text().prop_filter_map("does not parse", |text| text.parse().ok())
}

fn automaton_of(pattern: &PathPattern) -> String {
    format!("{:?}", pattern.automaton)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matching_agrees_with_the_slow_reference(text in text()) {
        let Ok(pattern) = text.parse::<PathPattern>() else { return Ok(()) };
        for path in PATHS.iter() {
            prop_assert_eq!(pattern.matches(path), covers(&text, path), "{} and {}", &text, path);
        }
    }

    #[test]
    fn patterns_intersect_exactly_if_both_cover_some_path(left in pattern(), right in pattern()) {
        let shared = PATHS.iter().find(|path| left.matches(path) && right.matches(path));
        let witness = left.witness(&right);
        prop_assert!(shared.is_none() || witness.is_some(), "{} and {} both cover {:?}", left, right, shared);
        prop_assert_eq!(left.intersects(&right), witness.is_some());
        prop_assert_eq!(right.intersects(&left), witness.is_some());
        if let Some(path) = witness {
            prop_assert!(left.matches(&path) && right.matches(&path), "{} is not of {} and {}", path, left, right);
            prop_assert!(covers(left.as_str(), &path) && covers(right.as_str(), &path));
            let plain = path.chars().count() <= 5 && path.chars().all(|c| "ab./".contains(c));
            prop_assert!(shared.is_some() || !plain, "{} is no path", path);
        }
    }

    #[test]
    fn every_pattern_covers_something(pattern in pattern()) {
        let everything: PathPattern = "**".parse().unwrap();
        prop_assert!(pattern.intersects(&pattern));
        prop_assert!(pattern.intersects(&everything));
    }

    #[test]
    fn the_shown_text_is_the_same_pattern(pattern in pattern()) {
        let again: PathPattern = pattern.to_string().parse().unwrap();
        prop_assert_eq!(&again, &pattern);
        prop_assert_eq!(automaton_of(&again), automaton_of(&pattern));
    }

    #[test]
    fn normalising_changes_nothing_that_is_covered(text in text()) {
        let Ok(pattern) = text.parse::<PathPattern>() else { return Ok(()) };
        for path in PATHS.iter() {
            prop_assert_eq!(covers(pattern.as_str(), path), covers(&text, path), "{} for {}", &pattern, &text);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_with_advice(text in r"[\\/.*?!,a-c^{}\[\]\-\x00é]{0,24}") {
        match text.parse::<PathPattern>() {
            Ok(pattern) => prop_assert!(pattern.intersects(&pattern), "{} covers nothing", pattern),
            Err(error) => prop_assert!(error.help_text().is_some(), "{}", error),
        }
    }

    #[test]
    fn a_search_costs_no_more_than_its_bound(left in pattern(), right in pattern()) {
        let steps = common::search(&left.automaton, &right.automaton).steps;
        prop_assert!(steps <= super::tests::most_steps(&left, &right), "{} steps for {} and {}", steps, left, right);
    }
}
