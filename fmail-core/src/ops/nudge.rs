//! `nudge`: a word to an agent that is there right now.

use fmail_api::{Context, Nudge, NudgeRequest, Result};

use crate::Operations;

impl Operations {
    /// Gives the text to every open session of the agent; how many took it. Nothing is stored.
    pub(crate) fn nudge(&self, context: &Context, request: NudgeRequest) -> Result<u64> {
        request.check()?;
        let nudge = Nudge { from: context.agent.clone(), text: request.text, time: self.clock.now().whole_seconds() };
        Ok(self.nudges.give(&request.to, &nudge))
    }
}
