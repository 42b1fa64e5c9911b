//! Names that look like the one that was written.

/// The candidates nearest to `found`, the nearest first, at most three; none when nothing looks alike.
pub fn near<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let found = found.to_lowercase();
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (likeness(&found, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().map(|(_, candidate)| candidate).take(3).collect()
}

/// Whole names are compared, and their last parts: `mail.events` is meant to be `mail.watch.events`.
fn likeness(found: &str, candidate: &str) -> f64 {
    let whole = strsim::normalized_damerau_levenshtein(found, candidate);
    let tail = |name: &str| name.rsplit(['.', ' ']).next().unwrap_or(name).rsplit("__").next().map(str::to_string);
    match (tail(found), tail(candidate)) {
        (Some(a), Some(b)) => whole.max(strsim::normalized_damerau_levenshtein(&a, &b) - 0.1),
        _ => whole,
    }
}

/// The sentence that offers near names, or else lists what is allowed.
pub fn suggestion<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let quoted = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let near = quoted(near(found, candidates.clone()));
    if near.is_empty() {
        return format!("allowed are {}", quoted(candidates.into_iter().collect()).join(", "));
    }
    format!("did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["mail.store", "mail.watch.events", "mail.gc.days"];

    #[test]
    fn slips_of_the_finger_and_missing_sections_are_found() {
        assert_eq!(near("mail.stroe", KEYS), ["mail.store"]);
        assert_eq!(near("mail.events", KEYS), ["mail.watch.events"]);
        assert_eq!(near("MAIL.STORE", KEYS), ["mail.store"]);
        assert!(near("colour", KEYS).is_empty());
    }

    #[test]
    fn without_a_near_name_everything_allowed_is_listed() {
        assert_eq!(suggestion("sqlite", ["files", "memory"]), "allowed are `files`, `memory`");
        assert_eq!(suggestion("file", ["files", "memory"]), "did you mean `files`?");
    }
}
