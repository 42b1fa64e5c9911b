//! One store into another.

use fmail_api::{
    Clock, Delivery, Error, ErrorKind, Imported, MessageId, Order, Query, Record, RecordKey, Result, Selection, Since,
    Store, Timestamp, check_size,
};
use futures::StreamExt;
use serde::Serialize;

use super::inventory::{Found, Inventory, STEP};
use super::marker::{self, Marker};
use super::writing::{Batch, Records, Wanted};
use super::{Count, Progress, Tell, is_local, next_message};

/// So often what arrived meanwhile is fetched before the stores are compared.
const ROUNDS: usize = 10;
/// So many things that stand in the way, or that differ, are named.
const NAMED: usize = 20;

/// A copy of everything that one store holds into another.
///
/// It may be interrupted anywhere: run again it goes on, and until it is whole a record in the target says so. Nothing is
/// written before it is known that everything fits.
pub struct Copy<'a> {
    /// From where.
    pub from: &'a dyn Store,
    /// Into which. It has to be able to import.
    pub to: &'a dyn Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Only tell what there is to do.
    pub dry_run: bool,
    /// A record that no rule merges replaces the one in the target.
    pub overwrite: bool,
}

/// What a copy came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CopyReport {
    /// The messages of the source.
    pub messages: Count,
    /// The records of the source, without what is local.
    pub records: Count,
    /// An earlier copy was interrupted, and this one went on with it.
    pub resumed: bool,
    /// Nothing was written: these are the numbers of what there is to do.
    pub dry_run: bool,
    /// Both stores were read and compared, and all of the source is in the target.
    pub verified: bool,
    /// Messages of the target that the source does not have.
    pub only_in_target: u64,
    /// What differs, or the first of it.
    pub mismatches: Vec<String>,
    /// How many things differ.
    pub mismatch_count: u64,
}

/// Things with a name of which the first are kept and all are counted.
#[derive(Default)]
struct Listed {
    named: Vec<String>,
    count: u64,
}

impl Listed {
    fn add(&mut self, what: String) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(what);
        }
    }
}

impl Copy<'_> {
    /// Copies, and compares the two stores afterwards. A difference is in the report; it is no error here.
    pub async fn run(&self, tell: Tell<'_>) -> Result<CopyReport> {
        if !self.to.capabilities().import {
            let name = self.to.capabilities().name;
            return Err(Error::new(ErrorKind::Unsupported, format!("the store `{name}` cannot import messages"))
                .help("a store that claims `import` can be the target of a copy"));
        }
        marker::check_whole(self.from).await?;
        let mut marker = Marker::find(self.to, &self.from.capabilities().name, self.clock.now()).await?;
        let known = Inventory::of(self.to, tell, Progress::Planned).await?;
        let mut report = self.plan(&known, &marker, tell).await?;
        report.resumed = marker.is_placed();
        report.dry_run = self.dry_run;
        if self.dry_run {
            return Ok(report);
        }
        let founded = match self.from.get(&RecordKey::project()).await? {
            Some(project) => self.writer().found_project(&project.value).await?,
            None => false,
        };
        marker.place(self.to).await?;
        report.messages.written = self.messages(&known, tell).await?;
        drop(known);
        report.records.written = u64::from(founded) + self.records(&mut marker, tell).await?;
        self.verify(&mut report, tell).await?;
        if report.verified {
            marker.remove(self.to).await?;
        }
        Ok(report)
    }

    fn writer(&self) -> Records<'_> {
        Records { to: self.to, now: self.clock.now(), overwrite: self.overwrite }
    }

    /// Counts what there is to do, and refuses when something of it cannot be done.
    async fn plan(&self, known: &Inventory, marker: &Marker, tell: Tell<'_>) -> Result<CopyReport> {
        let mut report = CopyReport::default();
        let mut obstacles = Listed::default();
        let swept = horizon(self.to).await?;
        let mut messages = self.from.scan(Query::default()).await?.messages;
        while let Some(delivery) = next_message(&mut messages, tell).await? {
            report.messages.total += 1;
            match known.find(&delivery) {
                Found::Same => report.messages.present += 1,
                Found::Other => obstacles.add(format!("{}: another message has this id there", delivery.message.id)),
                Found::Nothing => {
                    report.messages.written += 1;
                    if let Some(obstacle) = self.obstacle(&delivery, swept) {
                        obstacles.add(format!("{}: {obstacle}", delivery.message.id));
                    }
                }
            }
            if report.messages.total.is_multiple_of(STEP) {
                tell(Progress::Planned(report.messages.total));
            }
        }
        let writer = self.writer();
        let mut records = self.from.list("").await?;
        while let Some(record) = next_record(&mut records).await? {
            report.records.total += 1;
            match writer.wanted(&record.key, &record.value, Some(marker)).await? {
                Wanted::Same => report.records.present += 1,
                Wanted::Put(..) => report.records.written += 1,
                Wanted::Conflict => obstacles.add(format!("record {}: another one is there", record.key)),
            }
        }
        if obstacles.count > 0 { Err(self.refused(&obstacles)) } else { Ok(report) }
    }

    /// Why the target would not take the message under its id.
    fn obstacle(&self, delivery: &Delivery, swept: Option<Timestamp>) -> Option<String> {
        let limit = self.to.capabilities().max_message_bytes;
        let message = &delivery.message;
        if check_size(message, limit).is_err() {
            return Some(format!("it is larger than the {limit} bytes that a message may have there"));
        }
        if let Some(swept) = swept.filter(|swept| message.time < *swept) {
            return Some(format!("everything before {swept} was swept away there"));
        }
        let ahead = !message.id.is_importable(self.clock.now());
        ahead.then(|| "its id lies in the future".into())
    }

    fn refused(&self, obstacles: &Listed) -> Error {
        let left = obstacles.count - obstacles.named.len() as u64;
        let more = if left > 0 { format!("; and {left} more") } else { String::new() };
        let name = self.to.capabilities().name;
        let text = format!(
            "nothing was copied, since the store `{name}` cannot take all of it as it is: {}{more}",
            obstacles.named.join("; ")
        );
        Error::new(ErrorKind::Conflict, text).help(
            "a message is never stored under another id, since answers and states of mail name it: use an empty target, or \
             move away what is in the way (an id in the future can be waited for); --overwrite replaces records",
        )
    }

    /// Copies messages in the order in which they came, then those that came meanwhile; tells how many were new.
    async fn messages(&self, known: &Inventory, tell: Tell<'_>) -> Result<u64> {
        let mut since = None;
        let mut copied: u64 = 0;
        for round in 0..ROUNDS {
            let query = Query { since: since.take(), order: Order::Arrival, ..Query::default() };
            let scan = match self.from.scan(query).await {
                // The source can no longer tell what is new: all of it is looked at again.
                Err(error) if error.kind() == ErrorKind::Expired => continue,
                scan => scan?,
            };
            let mut messages = scan.messages;
            let mut arrived = 0;
            while let Some(delivery) = next_message(&mut messages, tell).await? {
                arrived += 1;
                if known.find(&delivery) == Found::Same {
                    continue;
                }
                copied += u64::from(self.message(&delivery).await?);
                if copied.is_multiple_of(STEP) {
                    tell(Progress::Messages(copied));
                }
            }
            since = Some(Since::Cursor(scan.cursor));
            if round > 0 && arrived == 0 {
                break;
            }
        }
        tell(Progress::Messages(copied));
        Ok(copied)
    }

    /// Copies a message; tells whether it was new.
    async fn message(&self, delivery: &Delivery) -> Result<bool> {
        let message = &delivery.message;
        match self.to.import((**message).clone()).await? {
            Imported::New => Ok(true),
            Imported::Duplicate => Ok(false),
            Imported::Relocated(id) => Err(self.relocated(message.id, id).await),
            Imported::Refused(reason) => Err(Error::new(
                ErrorKind::Conflict,
                format!("the target does not take the message {}: {reason:?}", message.id),
            )),
        }
    }

    /// Somebody took the id since it was looked at. The message goes again, so that it is found when the copy goes on.
    async fn relocated(&self, wanted: MessageId, got: MessageId) -> Error {
        let error = Error::new(
            ErrorKind::Conflict,
            format!("the id {wanted} was taken in the target meanwhile, or lies too far ahead of its clock"),
        );
        let selection = Selection { ids: [got].into(), ..Selection::default() };
        let removed = match self.to.remove(selection).await {
            Ok(mut removed) => {
                let mut whole = true;
                while let Some(one) = removed.next().await {
                    whole &= one.is_ok();
                }
                whole
            }
            Err(_) => false,
        };
        let left = if removed { String::new() } else { format!("; the target keeps it under {got}: delete that one") };
        error.help(format!("stop whoever writes there, then run the copy again{left}"))
    }

    /// Copies records; tells how many were written. The horizon comes last: behind it no old message is taken.
    async fn records(&self, marker: &mut Marker, tell: Tell<'_>) -> Result<u64> {
        let writer = self.writer();
        let (mut seen, mut written) = (0_u64, 0_u64);
        let (mut batch, mut horizon) = (Batch::default(), None);
        let mut gone: Vec<RecordKey> = marker.keys().cloned().collect();
        let mut records = self.from.list("").await?;
        while let Some(record) = next_record(&mut records).await? {
            seen += 1;
            gone.retain(|key| *key != record.key);
            if record.key == RecordKey::horizon() {
                horizon = Some(record);
            } else if let Some(record) = batch.take(record) {
                written += u64::from(writer.put(&record.key, &record.value, None).await?);
            }
            if batch.is_full() {
                written += batch.put(&writer, marker).await?;
            }
            tell(Progress::Records(seen));
        }
        written += batch.put(&writer, marker).await?;
        for key in gone {
            self.take_back(&key, marker).await?;
        }
        writer.drop_tallies().await?;
        if let Some(record) = horizon {
            written += u64::from(writer.put(&record.key, &record.value, None).await?);
        }
        Ok(written)
    }

    /// Removes what an earlier part of this copy put there and the source no longer has.
    async fn take_back(&self, key: &RecordKey, marker: &Marker) -> Result<()> {
        match self.to.get(key).await? {
            Some(record) if marker.wrote(key, &record.value) => {
                self.to.delete(key, fmail_api::Expect::Revision(record.revision)).await
            }
            _ => Ok(()),
        }
    }

    /// Reads both stores from their lowest ids on and compares them.
    async fn verify(&self, report: &mut CopyReport, tell: Tell<'_>) -> Result<()> {
        let known = Inventory::of(self.to, tell, Progress::Verified).await?;
        let mut differing = Listed::default();
        let mut same = 0;
        report.messages.total = 0;
        let mut messages = self.from.scan(Query::default()).await?.messages;
        while let Some(delivery) = next_message(&mut messages, tell).await? {
            let id = delivery.message.id;
            report.messages.total += 1;
            match known.find(&delivery) {
                Found::Same => same += 1,
                Found::Other => differing.add(format!("message {id} is another one in the target")),
                Found::Nothing => differing.add(format!("message {id} is not in the target")),
            }
        }
        tell(Progress::Verified(report.messages.total));
        let writer = Records { overwrite: false, ..self.writer() };
        report.records.total = 0;
        let mut records = self.from.list("").await?;
        while let Some(record) = next_record(&mut records).await? {
            report.records.total += 1;
            match writer.wanted(&record.key, &record.value, None).await? {
                Wanted::Same => {}
                Wanted::Put(..) | Wanted::Conflict => {
                    differing.add(format!("record {} is not the same in the target", record.key));
                }
            }
        }
        report.only_in_target = known.len() - same;
        report.verified = differing.count == 0;
        report.mismatch_count = differing.count;
        report.mismatches = differing.named;
        Ok(())
    }
}

/// The next record that is not local. One that cannot be read stops the copy: what it held would be lost silently.
pub(super) async fn next_record(
    records: &mut futures::stream::BoxStream<'static, Result<Record>>,
) -> Result<Option<Record>> {
    while let Some(record) = records.next().await {
        let record = record?;
        if !is_local(&record.key) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The time below which everything was swept away in a store.
async fn horizon(store: &dyn Store) -> Result<Option<Timestamp>> {
    let record = store.get(&RecordKey::horizon()).await?;
    Ok(record.and_then(|record| record.value.get("before")?.as_str()?.parse().ok()))
}
