//! Going through the states that a recording can end in.

use std::collections::HashSet;
use std::sync::Arc;

use fmail_api::Clock;
use fmail_backends::SystemClock;

use crate::account::Account;
use crate::check::Survivor;
use crate::common::{HandClock, Project, Random};
use crate::disk::Image;
use crate::recording::{Action, Recording};
use crate::scenarios::Scenario;
use crate::sites::Site;
use crate::stage::Stage;

/// How thoroughly, and from which seed.
#[derive(Clone, Copy)]
pub struct Effort {
    /// The most states at each moment.
    pub most: usize,
    pub seed: u64,
}

impl Effort {
    /// As much as fits into a short run, or `FMAIL_TEST_FULL`.
    pub fn usual() -> Effort {
        Effort::full_or(600, 12)
    }

    /// At most so many states at each moment in the full form and so many otherwise, or `FMAIL_POWER_STATES` if that is less.
    pub fn full_or(full: usize, short: usize) -> Effort {
        let bound = std::env::var("FMAIL_POWER_STATES").ok();
        let bound = bound.map_or(usize::MAX, |number| number.parse().expect("FMAIL_POWER_STATES is a number"));
        Effort::of(bound.min(if is_full() { full } else { short }))
    }

    /// At most this many states at each moment.
    pub fn of(most: usize) -> Effort {
        let seed = std::env::var("FMAIL_TEST_SEED").ok().map(|seed| seed.parse().expect("FMAIL_TEST_SEED is a number"));
        Effort { most, seed: seed.unwrap_or(0x5eed_0009) }
    }
}

/// Whether there is time for everything.
pub fn is_full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

/// A clock that stands still, a little ahead of the times that the file system stamps.
pub fn clock() -> Arc<HandClock> {
    HandClock::at(&SystemClock.now().after(std::time::Duration::from_secs(3600)).to_string())
}

/// Plays a scenario and goes through everything that it can end in.
pub fn play(scenario: &Scenario, left_out: Option<Site>, effort: Effort) -> Result<usize, String> {
    let stage = Stage::on(Project::in_memory(), clock(), 1, left_out);
    (scenario.play)(&stage);
    explore(&stage.recorder.recording(), Account::default(), &stage.clock, effort)
        .map_err(|failure| format!("{}: {failure}", scenario.name))
}

/// The same for a store whose replay skips the names that are there.
pub fn play_believing(scenario: &Scenario, effort: Effort) -> Result<usize, String> {
    let stage = Stage::on(Project::in_memory(), clock(), 1, None);
    (scenario.play)(&stage);
    explore_with(&stage.recorder.recording(), Account::default(), &stage.clock, effort, true)
}

/// Cuts the power at every moment of a recording. Returns how many different states were found, all of them good.
pub fn explore(
    recording: &Recording,
    account: Account,
    clock: &Arc<HandClock>,
    effort: Effort,
) -> Result<usize, String> {
    explore_with(recording, account, clock, effort, false)
}

fn explore_with(
    recording: &Recording,
    account: Account,
    clock: &Arc<HandClock>,
    effort: Effort,
    believing: bool,
) -> Result<usize, String> {
    recording.journal_is_written_in_place()?;
    let mut found = 0;
    visit(recording, account, effort, &mut |number, image, account| {
        found += 1;
        let project = Project::in_memory();
        image.write_to(project.root());
        let mut survivor = Survivor { project, account, clock, boot: 100, believing };
        survivor.check(image.fingerprint().is_multiple_of(2)).map_err(|reason| {
            let (done, seed) = (recording.describe(number), effort.seed);
            format!("{reason}\npower cut behind {done}\nFMAIL_TEST_SEED={seed} found:\n{}", image.describe())
        })
    })?;
    Ok(found)
}

/// The states that a recording can end in, each with what was promised by then.
pub fn states(recording: &Recording, account: Account, effort: Effort) -> Vec<(Image, Account)> {
    let mut found = Vec::new();
    let all = visit(recording, account, effort, &mut |_, image, account| {
        found.push((image, account.clone()));
        Ok::<(), String>(())
    });
    all.unwrap();
    found
}

/// Calls `each` with every different state, the number of the last action before it and the account up to there.
fn visit<E>(
    recording: &Recording,
    mut account: Account,
    effort: Effort,
    each: &mut dyn FnMut(usize, Image, &Account) -> Result<(), E>,
) -> Result<(), E> {
    let mut disk = recording.before.clone();
    let mut seen = HashSet::new();
    for (number, action) in recording.actions.iter().enumerate() {
        disk.apply(action);
        account.apply(action);
        if number + 1 < recording.from || matches!(action, Action::Begun(_)) {
            continue;
        }
        let mut random = Random((effort.seed ^ (number as u64) << 32).max(1));
        for image in disk.after_a_power_cut(effort.most, &mut random) {
            if seen.insert((image.fingerprint(), account.answers)) {
                each(number, image, &account)?;
            }
        }
    }
    Ok(())
}
