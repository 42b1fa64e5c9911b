//! `nudge`: a word to an agent that is there right now.

use fmail_api::{Context, Error, Nudge, NudgeRequest, Result};

use crate::Operations;

/// The longest text of a nudge, in bytes.
const LONGEST: usize = 4096;

impl Operations {
    /// Gives the text to every open session of the agent; how many took it. Nothing is stored.
    pub(crate) fn nudge(&self, context: &Context, request: NudgeRequest) -> Result<u64> {
        let size = request.text.len();
        if request.text.trim().is_empty() || size > LONGEST {
            return Err(Error::invalid(format!(
                "a nudge of {size} bytes, allowed are 1 to {LONGEST} and not only blanks"
            ))
            .help("what is long or has to last is a message: `fmail send`"));
        }
        let nudge = Nudge { from: context.agent.clone(), text: request.text, time: self.clock.now().whole_seconds() };
        Ok(self.nudges.give(&request.to, &nudge))
    }
}
