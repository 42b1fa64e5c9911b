//! The form in which an agent takes text from a hook. docs/hooks.md says where each form is documented.

use clap::ValueEnum;
use serde_json::json;

use super::input::Input;

/// The agents whose hooks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookAgent {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// Gemini CLI
    Gemini,
}

impl HookAgent {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HookAgent::Claude => "claude",
            HookAgent::Codex => "codex",
            HookAgent::Gemini => "gemini",
        }
    }

    /// What it calls the moments at which mail can be told.
    pub(crate) fn events(self) -> Events {
        match self {
            HookAgent::Claude | HookAgent::Codex => {
                Events { start: "SessionStart", prompt: "UserPromptSubmit", tool: "PostToolUse", stop: "Stop" }
            }
            HookAgent::Gemini => {
                Events { start: "SessionStart", prompt: "BeforeAgent", tool: "AfterTool", stop: "AfterAgent" }
            }
        }
    }
}

/// The names of the moments at which mail can be told.
pub(crate) struct Events {
    /// A session begins, goes on, or has lost its context.
    pub(crate) start: &'static str,
    /// The user has said something.
    pub(crate) prompt: &'static str,
    /// A tool has been used, in the middle of a turn.
    pub(crate) tool: &'static str,
    /// The agent is done and would wait for its user.
    pub(crate) stop: &'static str,
}

/// A moment in a session, as far as it matters for telling mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The context is new or was cut down: what was told before may be gone.
    Start,
    /// Text goes into the context.
    Turn,
    /// Text goes into the context, in the middle of a turn and perhaps many times.
    Tool,
    /// Text makes the agent go on.
    Stop,
    /// Nothing that is told here would reach the agent.
    Deaf,
}

/// How text is handed to whoever called.
pub(crate) struct Form {
    agent: Option<HookAgent>,
    event: Option<String>,
    /// The moment that this is.
    pub(crate) moment: Moment,
}

impl Form {
    /// Plain text, whatever happened.
    pub(crate) fn plain() -> Form {
        Form { agent: None, event: None, moment: Moment::Turn }
    }

    /// The form for an agent, by what its hook tells; plain text for none.
    pub(crate) fn of(agent: Option<HookAgent>, event: Option<&str>, input: &Input) -> Form {
        let event = event.or(input.hook_event_name.as_deref()).map(String::from);
        let moment = match (agent, event.as_deref()) {
            // A subagent's context ends with it. Its main agent would never see what is told here.
            _ if input.agent_id.is_some() => Moment::Deaf,
            (None, Some("SessionStart")) => Moment::Start,
            (None, _) | (Some(_), None) => Moment::Turn,
            (Some(agent), Some(event)) => moment(agent, event, input),
        };
        Form { agent, event, moment }
    }

    /// Mail, as it goes to standard output.
    pub(crate) fn mail(&self, text: &str) -> String {
        match (self.agent, self.moment) {
            (None, _) => text.to_string(),
            (Some(HookAgent::Gemini), Moment::Stop) => json!({"decision": "deny", "reason": text}).to_string(),
            (Some(_), Moment::Stop) => json!({"decision": "block", "reason": text}).to_string(),
            (Some(agent), _) => self.context(agent, text),
        }
    }

    /// That mail cannot be told. It never keeps an agent from stopping: that would not bring the mail either.
    pub(crate) fn trouble(&self, text: &str) -> String {
        match (self.agent, self.moment) {
            (None, _) => text.to_string(),
            (Some(_), Moment::Stop | Moment::Deaf) => json!({"systemMessage": text}).to_string(),
            (Some(agent), _) => self.context(agent, text),
        }
    }

    fn context(&self, agent: HookAgent, text: &str) -> String {
        let event = match (&self.event, agent) {
            (Some(event), _) => event,
            // Both take plain text into the context where they take anything.
            (None, HookAgent::Claude | HookAgent::Codex) => return text.to_string(),
            (None, HookAgent::Gemini) => agent.events().prompt,
        };
        json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}).to_string()
    }
}

fn moment(agent: HookAgent, event: &str, input: &Input) -> Moment {
    let events = agent.events();
    // Claude Code drops what a hook says behind a subagent's call (anthropics/claude-code#43750).
    let dropped = agent == HookAgent::Claude && matches!(input.tool_name.as_deref(), Some("Agent" | "Task"));
    match event {
        event if event == events.start => Moment::Start,
        event if event == events.prompt => Moment::Turn,
        event if event == events.tool && !dropped => Moment::Tool,
        // Going on because of a hook, it stops for good the next time: a hook must not keep it running.
        event if event == events.stop && !input.stop_hook_active => Moment::Stop,
        _ => Moment::Deaf,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(agent: Option<HookAgent>, event: &str, change: impl FnOnce(&mut Input)) -> Form {
        let mut input = Input { hook_event_name: Some(event.into()), ..Input::default() };
        change(&mut input);
        Form::of(agent, None, &input)
    }

    #[test]
    fn every_moment_has_the_form_that_its_agent_takes() {
        let claude = Some(HookAgent::Claude);
        let context = r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"t"}}"#;
        assert_eq!(form(claude, "PostToolUse", |_| ()).mail("t"), context);
        assert_eq!(form(Some(HookAgent::Codex), "PostToolUse", |_| ()).mail("t"), context);
        let context = context.replace("PostToolUse", "AfterTool");
        assert_eq!(form(Some(HookAgent::Gemini), "AfterTool", |_| ()).mail("t"), context);
        assert_eq!(form(claude, "Stop", |_| ()).mail("t"), r#"{"decision":"block","reason":"t"}"#);
        let deny = r#"{"decision":"deny","reason":"t"}"#;
        assert_eq!(form(Some(HookAgent::Gemini), "AfterAgent", |_| ()).mail("t"), deny);
        assert_eq!(form(claude, "Stop", |_| ()).trouble("t"), r#"{"systemMessage":"t"}"#);
        assert_eq!(form(None, "PostToolUse", |_| ()).mail("t"), "t");
        assert_eq!(Form::of(claude, None, &Input::default()).mail("t"), "t");
        assert!(Form::of(Some(HookAgent::Gemini), None, &Input::default()).mail("t").contains("BeforeAgent"));
        assert!(Form::of(claude, Some("Stop"), &Input::default()).mail("t").contains("block"));
    }

    #[test]
    fn nothing_is_told_where_nobody_would_hear_it() {
        let claude = Some(HookAgent::Claude);
        for (event, change) in [
            ("PostToolUse", (|input| input.agent_id = Some("sub".into())) as fn(&mut Input)),
            ("PostToolUse", |input| input.tool_name = Some("Task".into())),
            ("Stop", |input| input.stop_hook_active = true),
            ("SessionEnd", |_| ()),
            ("BeforeAgent", |_| ()),
        ] {
            assert_eq!(form(claude, event, change).moment, Moment::Deaf, "{event}");
        }
        assert_eq!(form(Some(HookAgent::Codex), "SessionStart", |_| ()).moment, Moment::Start);
    }
}
