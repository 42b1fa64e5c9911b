//! Files that somebody writes into the project without any program of ours, and `gc` for those that are old.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fmail_e2e::Sender;
use fmail_e2e::checker::{Account, Message, Origin};
use serde_json::{Value, json};

use crate::load::{Load, journal};

const DAY: u64 = 86_400;
/// How many outdated messages are planted before each `gc`.
const PLANTED: u64 = 30;

/// Drops a file into a topic, a few times a second: with an id of its time, or with one of the day before.
pub fn drop_files(load: &Load) -> Account {
    let (mut timely, mut dated_back) = (Vec::new(), Vec::new());
    load.repeat(Duration::from_millis(200), |number| {
        let topic = ["task", "build", "status"][number as usize % 3];
        let now = unix_millis();
        if number % 2 == 0 {
            // A little ahead, as of a machine whose clock is: an id there is surely free, and ours follow behind it.
            let message = message(now + 5_000, now, topic, json!({"marker": format!("by hand/{number}")}));
            timely.push(write(load, &message, number % 4 == 0));
        } else {
            let time = now - DAY * 1_000 + number;
            let message = message(time, time, topic, json!({"marker": format!("dated back/{number}")}));
            dated_back.push(write(load, &message, number % 4 == 1));
        }
    });
    let mut account = journal(&load.sites.near, Origin::ByHand, timely);
    account.journals.extend(journal(&load.sites.near, Origin::DatedBack, dated_back).journals);
    account
}

/// Plants messages that are far too old and has them removed, by a process and by the daemon in turn, here and on the other host.
pub fn plant_and_collect(load: &Load) -> Account {
    let near = &load.sites.near;
    let mut sent = Vec::new();
    load.repeat(Duration::from_secs(4), |number| {
        for planted in 0..PLANTED {
            let time = unix_millis() - 30 * DAY * 1_000 + number * 1_000 + planted;
            let message = message(time, time, "build", json!({"marker": format!("outdated/{number}/{planted}")}));
            sent.push(write(load, &message, planted % 2 == 0));
        }
        if number % 2 == 0 {
            near.sandbox.agent("janitor").arg("gc").ok();
        } else {
            Sender::new(&near.serving, "janitor").ask_for_stream(&json!({"cmd": "gc", "agent": "janitor", "days": 7}));
        }
        if number % 3 == 2 {
            load.sites.far.sandbox.agent("janitor").arg("gc").ok();
        }
    });
    journal(near, Origin::Outdated, sent)
}

/// A message with an id and a time, both in milliseconds since 1970.
fn message(id: u64, time: u64, topic: &str, body: Value) -> Value {
    let [year, month, day, hour, minute, second] = civil(id);
    let id = format!("{year}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{:04}", id % 1_000 * 10);
    let [year, month, day, hour, minute, second] = civil(time);
    let time = format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    json!({"id": id, "from": "jq", "to": topic, "time": time, "body": body})
}

/// Writes a message where it belongs: at once, or so that a reader may meet it half written.
fn write(load: &Load, message: &Value, at_once: bool) -> Message {
    let described = Message::of(message).expect("made above");
    let sandbox = &load.sites.near.sandbox;
    let place = sandbox.store().join("topics").join(&described.to[0]).join(format!("{}.json", described.id));
    fs::create_dir_all(place.parent().expect("a topic")).expect("own directory");
    assert!(!place.exists(), "{} is taken", place.display());
    let text = message.to_string();
    if at_once {
        let outside = sandbox.outside().join(&described.id);
        fs::write(&outside, text).and_then(|()| fs::rename(outside, place)).expect("own directory");
    } else {
        let (first, rest) = text.split_at(text.len() / 2);
        fs::write(&place, first).expect("own directory");
        let mut file = fs::OpenOptions::new().append(true).open(place).expect("own file");
        std::io::Write::write_all(&mut file, rest.as_bytes()).expect("own file");
    }
    described
}

fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Year, month, day, hour, minute and second.
fn civil(millis: u64) -> [u64; 6] {
    let (mut days, clock) = (millis / 1_000 / DAY, millis / 1_000 % DAY);
    let leap = |year: u64| u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)));
    let mut year = 1970;
    while days >= 365 + leap(year) {
        days -= 365 + leap(year);
        year += 1;
    }
    let lengths = [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    [year, month as u64 + 1, days + 1, clock / 3_600, clock / 60 % 60, clock % 60]
}
