//! `fmail thread`

use std::collections::HashMap;

use clap::Args;
use fmail_api::{Event, Mail, MessageId, Request, Response, ThreadRequest};
use futures::StreamExt;
use futures::executor::block_on;

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note, notice};
use crate::render::Style;
use crate::session::{Place, now, unexpected};
use crate::{identity, mail};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail thread 0042", "the conversation that a message belongs to"),
    example("fmail thread release-7 --json", "by the name of the thread"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Thread {
    /// The name of the thread, or the id of one of its messages, or the end of it
    #[arg(value_name = "THREAD|ID")]
    id: String,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Thread {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::reader(&place.environment, true)?;
        let reply = place.session(agent)?.call(Request::Thread(ThreadRequest { id: self.id.clone() }))?;
        let Response::Thread { thread } = &reply.head else { return Err(unexpected().into()) };
        let thread = thread.clone();
        let mut output = Output::stdout();
        let style = Style::choose(self.json, output.is_terminal(), |name| place.environment.var(name).map(Into::into));
        let mut events = reply.events.ok_or_else(unexpected)?;
        let (mut depths, mut count, now) = (HashMap::new(), 0, now());
        while let Some(event) = block_on(events.next()) {
            match event? {
                Event::Mail(mail) => {
                    count += 1;
                    let line = mail::shown(&mail, style, now);
                    let depth = depth(&mut depths, &mail);
                    // Only eyes get a tree: a program that reads lines gets them as they are.
                    match style {
                        Style::Terminal { .. } => output.line(&branch(&line, depth))?,
                        _ => output.line(&line)?,
                    }
                }
                Event::Notice(told) => notice(&told),
                _ => {}
            }
        }
        output.flush()?;
        if count == 0 {
            note(&format!("no messages in the thread `{thread}`"));
        }
        Ok(())
    }
}

/// How far below the beginning of the thread a message stands.
fn depth(depths: &mut HashMap<MessageId, usize>, mail: &Mail) -> usize {
    let above = mail.message.reply_to.and_then(|above| depths.get(&above));
    let depth = above.map_or(0, |above| above + 1);
    depths.insert(mail.message.id, depth);
    depth
}

/// The lines of a message, moved to the right by its depth.
fn branch(text: &str, depth: usize) -> String {
    if depth == 0 {
        return text.into();
    }
    let margin = "  ".repeat(depth - 1);
    format!("{margin}└ {}", text.replace('\n', &format!("\n{margin}  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_under_what_it_answers() {
        assert_eq!(branch("a", 0), "a");
        assert_eq!(branch("a\nb", 1), "└ a\n  b");
        assert_eq!(branch("a\nb", 3), "    └ a\n      b");
    }
}
