//! Names as people and scripts write them on a command line.

use fmail_api::{AgentName, Error, ErrorKind, Result, Target};

/// A topic, or `@` and an agent. `@` alone is what a shell makes of `@$FMAIL_AGENT` when the variable is not set.
pub(crate) fn target(text: &str) -> Result<Target> {
    if text.trim() == "@" {
        return Err(Error::new(ErrorKind::InvalidAgent, "the name behind the `@` is empty").help(
            "if you wrote @$FMAIL_AGENT, FMAIL_AGENT is not set in this shell: export FMAIL_AGENT=name; otherwise \
             write @name",
        ));
    }
    text.parse()
}

/// An agent, with or without the `@` that people are used to.
pub(crate) fn agent(text: &str) -> Result<AgentName> {
    let text = text.trim();
    text.strip_prefix('@').unwrap_or(text).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_at_sign_alone_points_to_the_variable() {
        for text in ["@", " @ "] {
            let error = target(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidAgent);
            assert!(error.help_text().unwrap().contains("FMAIL_AGENT"));
        }
        assert_eq!(target("@Bob").unwrap().to_string(), "@bob");
        assert_eq!(target("task").unwrap().to_string(), "task");
        assert!(target("").is_err());
    }

    #[test]
    fn an_agent_needs_no_at_sign_but_may_have_one() {
        for text in ["bob", "@bob", " @Bob "] {
            assert_eq!(agent(text).unwrap().as_str(), "bob");
        }
        assert!(agent("@@bob").is_err() && agent("@").is_err());
    }
}
