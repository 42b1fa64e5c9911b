//! Who may read what.

use fmail_api::{AgentName, Context, Error, ErrorKind, Result, Scope, Target};

/// Where `agent` reads when it asks for `target`: another agent's mailbox only when it says so in so many words, and
/// without a target every topic and its own mailbox.
pub(crate) fn scope(agent: &AgentName, target: Option<Target>, allow_other_dm: bool) -> Result<Scope> {
    match target {
        None => Ok(Scope::Visible(agent.clone())),
        Some(Target::Agent(other)) if other != *agent && !allow_other_dm => Err(Error::new(
            ErrorKind::Denied,
            format!("@{other} is the mailbox of another agent, and you are `{agent}`"),
        )
        .help(format!("set FMAIL_AGENT={other} if that is you, or read it all the same with --allow-other-dm"))),
        Some(target) => Ok(Scope::Target(target)),
    }
}

/// Whether `agent` may read there; see [`scope`]. For who asks somebody else, and wants the same refusal as here.
pub fn check_readable(agent: &AgentName, target: Option<&Target>, allow_other_dm: bool) -> Result<()> {
    scope(agent, target.cloned(), allow_other_dm).map(drop)
}

/// What lasts needs a name that lasts: a made-up one is gone with its process, and nobody could come back to it.
pub(crate) fn named(context: &Context, what: &str) -> Result<()> {
    if is_made_up(&context.agent) {
        return Err(Error::new(ErrorKind::InvalidAgent, format!("{what} needs an agent name of your own"))
            .help("set FMAIL_AGENT=name, or get one with `fmail register`"));
    }
    Ok(())
}

/// Whether the name can be anybody's to keep. What lasts is refused under a made-up one, so nobody may register it either.
pub(crate) fn keepable(name: &AgentName) -> Result<()> {
    if !is_made_up(name) {
        return Ok(());
    }
    let text = format!("`{name}` cannot be registered: names like it are given to agents without a name of their own");
    Err(Error::new(ErrorKind::InvalidAgent, text)
        .help("choose another one, or run `fmail register` without a name for a generated one"))
}

/// `anon-` and a number: the name that a process has for as long as it runs when it was given none.
pub(crate) fn is_made_up(name: &AgentName) -> bool {
    let number = name.as_str().strip_prefix("anon-");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(target: Option<&str>, allow: bool) -> Result<Scope> {
        scope(&"alice".parse().unwrap(), target.map(|text| text.parse().unwrap()), allow)
    }

    #[test]
    fn another_agents_mailbox_is_refused_unless_allowed() {
        let error = ask(Some("@bob"), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.help_text().unwrap().contains("--allow-other-dm"));
        assert_eq!(ask(Some("@bob"), true).unwrap(), Scope::Target("@bob".parse().unwrap()));
    }

    #[test]
    fn topics_and_the_own_mailbox_are_open() {
        assert_eq!(ask(Some("task"), false).unwrap(), Scope::Target("task".parse().unwrap()));
        assert_eq!(ask(Some("@alice"), false).unwrap(), Scope::Target("@alice".parse().unwrap()));
        assert_eq!(ask(None, true).unwrap(), Scope::Visible("alice".parse().unwrap()));
    }
}
