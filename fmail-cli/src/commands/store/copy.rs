//! `fmail store copy`

use clap::Args;
use fmail_api::{Error, ErrorKind};
use fmail_core::transfer::{self, CopyReport};
use fmail_host::daemon_lock::RootLock;
use fmail_host::{Environment, Project, SystemClock};
use futures::executor::block_on;
use serde_json::json;

use super::opened::open;
use super::progress::{counted, teller};
use crate::output::{Outcome, Output, note};

#[derive(Args)]
pub(crate) struct Copy {
    /// From this store, named as in mail.store
    #[arg(long, value_name = "STORE")]
    from: String,

    /// Into this store, named as in mail.store
    #[arg(long, value_name = "STORE")]
    to: String,

    /// A record that the target has in another form, and that cannot be merged, is replaced
    #[arg(long)]
    overwrite: bool,

    /// Only tell what there is to copy
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Copy {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        if self.from == self.to {
            return Err(Error::invalid(format!("--from and --to are the same store, `{}`", self.from)).into());
        }
        let project = Project::discover(environment)?;
        if !project.fmail_dir().is_dir() {
            let text = format!("there is no project in {}, so there is nothing to copy", project.root.display());
            return Err(Error::not_found(text).help("run it where .fmail is, or set FMAIL_ROOT").into());
        }
        // A daemon would go on with the store that it has open, and what it takes in meanwhile would stay there.
        let _lock = RootLock::keep_daemons_away(&project.fmail_dir())?;
        let from = open(environment, &project, set, Some(&self.from))?;
        let to = open(environment, &project, set, Some(&self.to))?;
        let copy = transfer::Copy {
            from: &*from,
            to: &*to,
            clock: &SystemClock,
            dry_run: self.dry_run,
            overwrite: self.overwrite,
        };
        let report = block_on(copy.run(&mut teller()))?;
        block_on(to.close())?;
        block_on(from.close())?;
        self.tell(&report)
    }

    fn tell(&self, report: &CopyReport) -> Outcome {
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({"from": self.from, "to": self.to, "report": report}))?;
        } else {
            output.line(&self.summary(report))?;
        }
        output.flush()?;
        if report.dry_run {
            return Ok(());
        }
        if report.only_in_target > 0 {
            let more = counted(report.only_in_target, "message");
            note(&format!("`{}` also holds {more} that `{}` does not have", self.to, self.from));
        }
        if !report.verified {
            for mismatch in &report.mismatches {
                note(mismatch);
            }
            let text = format!("`{}` and `{}` differ in {} places", self.from, self.to, report.mismatch_count);
            let help = "stop whoever writes to the project, then run the same command again: it goes on from here";
            return Err(Error::new(ErrorKind::Conflict, text).help(help).into());
        }
        note(&format!("to use it, set mail.store = \"{}\"; `{}` stays as it is", self.to, self.from));
        Ok(())
    }

    fn summary(&self, report: &CopyReport) -> String {
        let (verb, compared) = match (report.dry_run, report.verified) {
            (true, _) => ("to copy", "nothing was written"),
            (false, true) => ("copied", "compared, and the same"),
            (false, false) => ("copied", "compared, and different"),
        };
        let resumed = if report.resumed { ", going on with an interrupted copy" } else { "" };
        format!(
            "{verb} from {} to {}: {} of {}, {} of {}; {compared}{resumed}",
            self.from,
            self.to,
            report.messages.written,
            counted(report.messages.total, "message"),
            report.records.written,
            counted(report.records.total, "record"),
        )
    }
}
