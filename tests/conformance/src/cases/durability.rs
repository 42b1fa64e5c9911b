//! What an answer is worth when the process is killed right behind it (A5, R5).

use std::collections::BTreeMap;

use fmail_api::{MessageId, Query};
use futures::executor::block_on;

use crate::case::{ensure, ensure_eq};
use crate::crash::{counter_key, killed_after, own_key, payload, topic};
use crate::kit::{append, draft, find, scan, target};
use crate::{Bench, Case, Failure, Need, Verdict, Work};

pub(super) static CASES: &[Case] = &[
    Case { rule: "A5", name: "answered_messages_survive_a_kill", needs: &[Need::Durable], check: messages_survive },
    Case {
        rule: "A5",
        name: "answered_messages_of_a_crowd_survive_a_kill",
        needs: &[Need::Durable],
        check: crowd_survives,
    },
    Case { rule: "R5", name: "answered_records_survive_a_kill", needs: &[Need::Durable], check: records_survive },
];

/// After how many answers the writer is killed, in turn on the same data.
const KILLS: [usize; 6] = [1, 2, 3, 7, 20, 50];

fn writer(bench: &Bench, work: Work) -> Verdict<std::process::Command> {
    bench.writer(work).ok_or_else(|| {
        Failure::new("the store claims `durable`, but its subject offers no writer process to prove it with")
    })
}

fn messages_survive(bench: &Bench) -> Verdict {
    survive(bench, Work::Messages)
}

fn crowd_survives(bench: &Bench) -> Verdict {
    survive(bench, Work::Crowd)
}

fn survive(bench: &Bench, work: Work) -> Verdict {
    let mut answered = Vec::new();
    for lines in KILLS {
        for line in killed_after(writer(bench, work)?, lines)? {
            let parsed = line.split_once(' ').and_then(|(number, id)| Some((number.parse().ok()?, id.parse().ok()?)));
            let (number, id): (u64, MessageId) =
                parsed.ok_or_else(|| Failure::new(format!("the writer printed `{line}`")))?;
            answered.push((number, id));
        }
        let store = bench.open()?;
        let deliveries = scan(&*store, Query::default())?.deliveries;
        let found = deliveries.len();
        let stored: BTreeMap<MessageId, _> =
            deliveries.into_iter().map(|found| (found.message.id, found.message.clone())).collect();
        ensure_eq!(found, stored.len(), "messages that a scan delivers, and ids among them");
        for (number, id) in &answered {
            let message = stored.get(id).ok_or_else(|| Failure::new(format!("{id} was answered and is gone")))?;
            ensure!(message.body == payload(*number), "{id} came back with another body");
            ensure_eq!(message.to, target(topic(*number)), "{id} came back in another place");
        }
        // What was not answered any more is whole or absent.
        for (id, message) in stored.iter().filter(|(_, message)| message.from.as_str() == "writer") {
            let number = message.body["number"].as_u64().unwrap_or(u64::MAX);
            ensure!(message.body == payload(number), "{id}, which was not answered, is there in part");
        }
        let next = append(&*store, draft("after", "the kill"))?;
        ensure!(stored.keys().all(|id| *id < next.id), "{} was assigned below an id that exists", next.id);
        find(&*bench.open()?, next.id)?;
    }
    Ok(())
}

fn records_survive(bench: &Bench) -> Verdict {
    for lines in KILLS {
        let printed = killed_after(writer(bench, Work::Records)?, lines)?;
        let store = bench.open()?;
        for number in 0..printed.len() as u64 {
            let record = block_on(store.get(&own_key(number)))?;
            let record = record.ok_or_else(|| Failure::new(format!("record {number} was answered and is gone")))?;
            ensure!(record.value == payload(number), "record {number} came back as another one");
        }
        let counter = block_on(store.get(&counter_key()))?;
        let count = counter.and_then(|record| record.value["count"].as_u64());
        let last = printed.len() as u64 - 1;
        ensure!(count.is_some_and(|count| count >= last), "{last} was counted, the record says {count:?}");
    }
    Ok(())
}
