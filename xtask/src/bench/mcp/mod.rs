//! Agents that write to each other over MCP, all at once, beside the same agents on the raw protocol.
//!
//! Upstream's figures are of another machine and stand here for their order of magnitude: its server takes seconds where
//! agents come together, and that is what is looked for.

mod forged;
mod load;
mod stored;
mod way;

use fmail_api::Result;

use self::forged::Forged;
use self::load::{Crowd, Outcome, work};
use self::way::Way;
use super::Extent;
use super::report::{Report, shown_seconds};
use super::stage::Stage;

/// As many agents as upstream was tried with, and what became of it.
const UPSTREAM: [(Crowd, Upstream); 3] = [
    (Crowd { agents: 1, messages: 50 }, Upstream::Took(0.2)),
    (Crowd { agents: 8, messages: 5 }, Upstream::Took(38.0)),
    (Crowd { agents: 30, messages: 5 }, Upstream::Unfinished("unfinished after 280 s")),
];

/// The crowd that the goal is about, and the calls that may take longer than the goal.
const CROWD: Crowd = Crowd { agents: 30, messages: 50 };
const FEW: Crowd = Crowd { agents: 30, messages: 5 };
const GOAL: f64 = 0.1;

/// What is known of upstream's server.
#[derive(Clone, Copy)]
enum Upstream {
    /// 99 of 100 calls took at most so many seconds.
    Took(f64),
    /// It was given up.
    Unfinished(&'static str),
}

/// Adds the rows of this measurement. Every message that was acknowledged has to be
/// in the files, once.
pub fn measure(stage: &Stage, extent: &Extent, report: &mut Report) -> Result<()> {
    for (crowd, upstream) in UPSTREAM {
        let name = format!("mcp-{}-{}", crowd.agents, crowd.messages);
        let mut outcome = meet(stage, &name, Way::Mcp, crowd)?;
        let calls = format!("p50 {}, p99 {}", shown_seconds(outcome.all(0.5)), shown_seconds(outcome.all(0.99)));
        match upstream {
            Upstream::Took(seconds) => {
                report.figure(format!("{crowd}, upstream"), format!("p99 {}", shown_seconds(seconds)));
                report.compared(crowd.to_string(), calls, outcome.all(0.99) / seconds, "upstream");
            }
            Upstream::Unfinished(what) => {
                report.figure(format!("{crowd}, upstream"), what);
                report.figure(crowd.to_string(), calls);
            }
        }
    }
    let crowd = if extent.quick { FEW } else { CROWD };
    // The ways take turns, and the first turn of each is not counted: everything has been used before.
    let mut outcomes = [Outcome::default(), Outcome::default()];
    for turn in 0..=extent.turns {
        for (way, outcome) in [Way::Lines, Way::Mcp].into_iter().zip(&mut outcomes) {
            let one = meet(stage, &format!("{}-{turn}", way.name()), way, crowd)?;
            if turn > 0 {
                outcome.add(one);
            }
        }
    }
    let [mut lines, mut mcp] = outcomes;
    for (way, outcome) in [(Way::Lines, &mut lines), (Way::Mcp, &mut mcp)] {
        let what = |kind: &str| format!("{crowd}, {}, {kind}", way.shown());
        for (kind, samples) in [("sends", &mut outcome.sends), ("fetches", &mut outcome.fetches)] {
            let (half, most) = load::quantiles(samples);
            report.figure(what(kind), format!("p50 {}, p99 {}", shown_seconds(half), shown_seconds(most)));
        }
        let most = outcome.all(0.99);
        report
            .figure(what("all calls"), format!("p50 {}, p99 {}", shown_seconds(outcome.all(0.5)), shown_seconds(most)));
        if way == Way::Mcp {
            report.goal("p99 under 100 ms", most < GOAL);
        }
    }
    let work = format!("{crowd}, the daemon's processor time for each call");
    report.figure(format!("{work}, {}", Way::Lines.shown()), shown_seconds(lines.worked()));
    let ratio = mcp.worked() / lines.worked();
    report.compared(format!("{work}, {}", Way::Mcp.shown()), shown_seconds(mcp.worked()), ratio, Way::Lines.shown());
    report.figure(format!("{crowd}, {}", Way::Lines.shown()), lines.rate());
    let ratio = mcp.each_second() / lines.each_second();
    report.compared(format!("{crowd}, {}", Way::Mcp.shown()), mcp.rate(), ratio, Way::Lines.shown());
    Ok(())
}

/// Lets a crowd work in a project of its own, with a daemon of its own, and counts what is stored.
fn meet(stage: &Stage, name: &str, way: Way, crowd: Crowd) -> Result<Outcome> {
    let forged = Forged::start(stage, name)?;
    let outcome = work(way, &forged, crowd)?;
    drop(forged);
    stored::check(&stage.directory().join(name), crowd)?;
    Ok(outcome)
}
