//! Everything that is wrong with a configuration, told at once: who corrects a file wants to do it once.

use fmail_api::Error;

/// All mistakes as one error; a single one as it is. The kind, and so the exit code, is that of the first.
pub fn one_error(mut mistakes: Vec<Error>) -> Error {
    if mistakes.len() == 1 {
        // There is one, as was just asked.
        return mistakes.remove(0);
    }
    let Some(first) = mistakes.first() else { return Error::internal("a mistake was announced and is none") };
    let mut text = format!("{} mistakes in the configuration:", mistakes.len());
    for mistake in &mistakes {
        text.push_str(&format!("\n  {mistake}"));
        if let Some(help) = mistake.help_text() {
            text.push_str(&format!("\n    help: {help}"));
        }
    }
    Error::new(first.kind(), text)
}

#[cfg(test)]
mod tests {
    use fmail_api::ErrorKind;

    use super::*;

    #[test]
    fn all_are_told_and_one_stays_itself() {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidConfig, what).context("file", "c.toml:1");
        let single = one_error(vec![wrong("a").help("b")]);
        assert_eq!((single.to_string().as_str(), single.help_text()), ("c.toml:1: a", Some("b")));
        let both = one_error(vec![wrong("a").help("do this"), wrong("c")]);
        assert_eq!(both.kind(), ErrorKind::InvalidConfig);
        assert_eq!(
            both.to_string(),
            "2 mistakes in the configuration:\n  c.toml:1: a\n    help: do this\n  c.toml:1: c"
        );
    }
}
