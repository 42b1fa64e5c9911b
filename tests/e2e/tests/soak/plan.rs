//! What happens to the daemons and to the link between them, as it follows from a seed.

use std::time::Duration;

use fmail_e2e::Random;

/// The decisions of a run, one after the other.
#[derive(Debug, Clone)]
pub struct Plan(Random);

/// How a daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// kill -9.
    Killed,
    /// SIGTERM, and everything that is under way is finished.
    Stopped,
}

/// Something that happens while everybody works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incident {
    /// The link breaks; the next connection is whole.
    Cut,
    /// The link breaks, and so many attempts to take it up again fail.
    Refused(u64),
    /// The link breaks in the middle of a line, after so many bytes.
    Torn(u64),
    /// Nothing passes the link for so long, and nobody is told.
    Silent(Duration),
    /// The other host's daemon ends, and is away for so long.
    Away(Ending, Duration),
    /// The slow watches stop reading until they were left behind.
    SlowReaders,
}

impl Plan {
    /// The plan that follows from this seed.
    pub fn of(seed: u64) -> Plan {
        Plan(Random::from(seed))
    }

    /// How long the next short life of a daemon is, and how it ends.
    pub fn short_life(&mut self) -> (Duration, Ending) {
        (self.millis(800, 2_000), self.ending())
    }

    /// What happens next, and how long everybody just works afterwards. The other host's daemon ends only where it may.
    pub fn incident(&mut self, other_may_end: bool) -> (Incident, Duration) {
        let incident = match self.0.below(if other_may_end { 10 } else { 7 }) {
            0..2 => Incident::Cut,
            2 => Incident::Refused(1 + self.0.below(5)),
            3 => Incident::Torn(self.0.below(3_000)),
            4..6 => Incident::Silent(self.millis(500, 4_000)),
            6 => Incident::SlowReaders,
            _ => Incident::Away(self.ending(), self.millis(0, 3_000)),
        };
        (incident, self.millis(300, 1_700))
    }

    fn ending(&mut self) -> Ending {
        if self.0.below(3) == 0 { Ending::Stopped } else { Ending::Killed }
    }

    fn millis(&mut self, least: u64, more: u64) -> Duration {
        Duration::from_millis(least + self.0.below(more))
    }
}

#[test]
fn a_seed_gives_the_same_plan_each_time() {
    let drawn = |seed| {
        let mut plan = Plan::of(seed);
        let lives: Vec<_> = (0..10).map(|_| plan.short_life()).collect();
        let incidents: Vec<_> = (0..200).map(|number| plan.incident(number % 2 == 0)).collect();
        (lives, incidents)
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
    let kinds = drawn(7).1;
    let is = |check: fn(&Incident) -> bool| assert!(kinds.iter().any(|(incident, _)| check(incident)), "{kinds:?}");
    is(|incident| *incident == Incident::Cut);
    is(|incident| matches!(incident, Incident::Refused(_)));
    is(|incident| matches!(incident, Incident::Torn(_)));
    is(|incident| matches!(incident, Incident::Silent(_)));
    is(|incident| *incident == Incident::SlowReaders);
    is(|incident| matches!(incident, Incident::Away(Ending::Killed, _)));
    is(|incident| matches!(incident, Incident::Away(Ending::Stopped, _)));
}
