//! `gc`: removes what is old.

use std::time::Duration;

use fmail_api::{Error, Event, GcReport, GcRequest, Reply, Response, Result, Selection};
use futures::StreamExt;

use crate::Operations;

const DAY: u64 = 86_400;

impl Operations {
    /// Removes every message whose time is older than the days asked for. Each is told as it goes.
    pub(crate) async fn gc(&self, request: GcRequest) -> Result<Reply> {
        if !self.store.capabilities().remove {
            return Err(Error::unsupported("remove messages"));
        }
        let before = self.clock.now().before(Duration::from_secs(u64::from(request.days) * DAY));
        let dry_run = request.dry_run;
        if !dry_run {
            self.forget_states(before).await?;
        }
        let removed = self.store.remove(Selection { before: Some(before), dry_run, ..Selection::default() }).await?;
        let events = removed.map(|removed| removed.map(Event::Swept)).boxed();
        Ok(Reply::streaming(Response::Collecting(GcReport { before, dry_run }), events))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fmail_api::{Event, GcRequest, LogRequest, Request};
    use futures::StreamExt;
    use futures::executor::block_on;

    use crate::testing::{Project, bodies, take};

    fn gc(project: &Project, days: u32, dry_run: bool) -> usize {
        let events = project.call("alice", Request::Gc(GcRequest { days, dry_run })).unwrap().events.unwrap();
        let swept = events.filter(|event| {
            let swept = matches!(event, Ok(Event::Swept(_)));
            async move { swept }
        });
        block_on(swept.count())
    }

    #[test]
    fn the_old_go_the_new_stay_and_a_dry_run_only_tells() {
        let project = Project::new();
        project.send("bob", "task", "old");
        project.clock.advance(Duration::from_secs(3 * 86_400));
        project.send("bob", "task", "new");
        let left = |project: &Project| {
            let messages = take(project.call("alice", Request::Log(LogRequest::default())).unwrap(), usize::MAX);
            bodies(&messages).join(" ")
        };
        assert_eq!(gc(&project, 7, false), 0);
        assert_eq!(gc(&project, 1, true), 1);
        assert_eq!(left(&project), "old new");
        assert_eq!(gc(&project, 1, false), 1);
        assert_eq!(left(&project), "new");
        assert_eq!(gc(&project, u32::MAX, false), 0);
    }
}
