//! How an instance ends: nothing of it is left.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use fmail_host::plugin::Program;
use futures::executor::block_on;

use crate::kit::{LONG, Rig, expect, start, start_as, wait_until_gone, wicked};

#[test]
fn one_that_answers_and_ends() {
    let rig = Rig::wicked();
    let counters = {
        let pid = rig.pid();
        let counters = block_on(rig.instance.close(LONG)).unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        counters
    };
    assert_eq!(counters, Default::default());
    expect(rig.tell("echo"), &["the instance is closed"]);
}

#[test]
fn one_that_answers_and_exits_at_once() {
    start(wicked(&["goes"]), LONG).unwrap().close();
}

#[test]
fn one_that_ignores_the_signal_is_killed() {
    let mut program = Program::new("wicked", wicked(&[]), LONG).unwrap();
    program.grace = Duration::from_millis(200);
    let rig = start_as(program).unwrap();
    assert_eq!(rig.tell("stubborn").unwrap(), "I stay");
    rig.close();
}

#[test]
fn one_that_never_answers_destroy_is_made_to_end() {
    let mut program = Program::new("wicked", wicked(&["stays"]), Duration::from_secs(3)).unwrap();
    program.grace = Duration::from_millis(200);
    let rig = start_as(program).unwrap();
    let pid = rig.pid();
    expect(block_on(rig.instance.close(LONG)), &["did not answer `destroy` and was made to end"]);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn when_nobody_waits_any_longer_it_ends_too() {
    let rig = start(wicked(&["stays"]), LONG).unwrap();
    let pid = rig.pid();
    expect(block_on(rig.instance.close(Duration::from_millis(300))), &["has not ended within 300ms"]);
    wait_until_gone(pid);
}

#[test]
fn what_it_started_ends_with_it() {
    let rig = Rig::wicked();
    let grandchild = rig.tell("grandchild").unwrap().parse().unwrap();
    rig.close();
    wait_until_gone(grandchild);
}

#[test]
fn one_that_was_dropped_ends() {
    let rig = Rig::wicked();
    let pid = rig.pid();
    drop(rig);
    wait_until_gone(pid);
}

#[test]
fn one_that_is_not_running_is_closed_at_once() {
    let rig = Rig::wicked();
    expect(rig.tell("exit 1"), &["exit status: 1"]);
    block_on(rig.instance.close(LONG)).unwrap();
}

#[test]
fn the_child_dies_with_the_host() {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leaving::a_host_that_is_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(host.stdout.take().unwrap());
    let said =
        output.lines().map(Result::unwrap).find_map(|line| line.split_once("child ").map(|(_, pid)| pid.to_string()));
    let pid = said.unwrap().parse().unwrap();
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until_gone(pid);
}

#[test]
#[ignore = "the host of another test"]
fn a_host_that_is_killed() {
    let rig = Rig::wicked();
    println!("child {}", rig.pid());
    // The child does not notice that its input ends.
    let _ = rig.tell("deaf");
}
