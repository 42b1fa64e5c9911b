//! Messages from one end to the other.

use std::collections::HashSet;

use fmail_api::{
    Delivery, Error, ErrorKind, Event, EventStream, ImportManyRequest, Imported, NoticeKind, Place, RefusedReason,
    Result,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::batch::{Gathered, gather, parts};
use super::end::refuses;
use super::session::Session;
use super::status::{UnderWay, Way};

/// What is left out, because both ends hold it.
#[derive(Debug, Clone, Copy)]
pub enum Known {
    /// Everything that is known to be at both.
    Ever,
    /// What has become known since then: a comparison has just found that one of them lacks it.
    Since(Instant),
}

/// Messages that the other end has refused for good. They are not offered again in this session, so that a message that is
/// too large for one host does not cross the link with every comparison.
#[derive(Default)]
pub struct RefusedPlaces(HashSet<Place>);

impl RefusedPlaces {
    const MOST: usize = 10_000;

    pub fn add(&mut self, place: Place) {
        if self.0.len() < Self::MOST {
            self.0.insert(place);
        }
    }

    pub fn contains(&self, place: &Place) -> bool {
        self.0.contains(place)
    }
}

impl Session {
    /// Imports what a stream delivers, in several batches at a time, until it ends. The error is the stream's.
    ///
    /// A message that is refused is counted, and the stream goes on. One that could not be stored for now is found again
    /// by the comparison that this asks for.
    pub(super) async fn carry(&self, way: Way, mut events: EventStream, known: Known) -> Result<()> {
        let mut under_way = FuturesUnordered::new();
        let mut ended = None;
        loop {
            let more = ended.is_none();
            tokio::select! {
                biased;
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                (slot, gathered) = self.next(way, &mut events), if more => {
                    gathered.hints.iter().for_each(|hint| self.hinted(way, hint));
                    ended = gathered.ended;
                    if !gathered.messages.is_empty() {
                        under_way.push(self.pass(way, gathered.messages, known, slot));
                    }
                }
                else => return ended.unwrap_or(Ok(())),
            }
        }
    }

    /// The next events, once there is room for one more batch.
    async fn next(&self, way: Way, events: &mut EventStream) -> (Option<SemaphorePermit<'_>>, Gathered) {
        let slot = self.lane(way).slots.acquire().await.ok();
        let most = if self.end(way.destination()).many { ImportManyRequest::MOST } else { self.pace.alone };
        (slot, gather(events, most).await)
    }

    /// So many messages have come to where they go, or will not come there.
    fn dealt_with(&self, way: Way, known: Known, count: usize) {
        match known {
            Known::Ever => self.reading.dealt_with(way, count),
            Known::Since(_) => self.state.brought(way, count),
        }
        if way == Way::Inward && count > 0 {
            self.has_news();
        }
    }

    /// What a stream says beside messages.
    fn hinted(&self, way: Way, event: &Event) {
        match event {
            Event::Record(_) => self.records_changed(),
            Event::Notice(notice) if notice.kind == NoticeKind::Broken && way == Way::Inward => {
                tracing::warn!(peer = self.peer(), problem = notice.text, "a message of a peer is refused");
                self.state.refused(way, 1);
            }
            _ => {}
        }
    }

    async fn pass(&self, way: Way, messages: Vec<Delivery>, known: Known, slot: Option<SemaphorePermit<'_>>) {
        let came = messages.len();
        let wanted: Vec<_> = messages.into_iter().filter_map(|delivery| self.wanted(way, delivery, known)).collect();
        self.dealt_with(way, known, came - wanted.len());
        for part in parts(wanted, |(_, delivery)| delivery.line().len()) {
            let count = part.len();
            self.pass_together(way, part, known).await;
            self.dealt_with(way, known, count);
        }
        drop(slot);
    }

    /// The message and its place, unless the other end has it or will never take it.
    fn wanted(&self, way: Way, delivery: Delivery, known: Known) -> Option<(Place, Delivery)> {
        let place = Place::of(&delivery.message);
        let there_already = {
            let both = self.both();
            match known {
                Known::Ever => both.hold(&place),
                Known::Since(moment) => both.hold_since(&place, moment),
            }
        };
        if there_already {
            if way == Way::Inward {
                self.state.imported(way, place.origin, &Imported::Duplicate);
            }
            return None;
        }
        let lane = self.lane(way);
        (!lane.is_closed() && !lane.has_refused(&place)).then_some((place, delivery))
    }

    async fn pass_together(&self, way: Way, part: Vec<(Place, Delivery)>, known: Known) {
        let size = part.iter().map(|(_, delivery)| delivery.line().len()).sum::<usize>().min(self.pace.bytes);
        let _room = self.lane(way).bytes.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await;
        let on_their_way: Vec<_> = match (way, known) {
            (Way::Outward, Known::Ever) => part.iter().map(|_| self.state.departs()).collect(),
            // What a comparison has found to be missing is counted as that.
            _ => Vec::new(),
        };
        let (places, messages): (Vec<Place>, Vec<_>) =
            part.into_iter().map(|(place, delivery)| (place, delivery.message.clone())).unzip();
        let from = self.end(way.origin()).run;
        let verdicts = self.end(way.destination()).import_all(messages, Some(from)).await;
        for (place, verdict) in places.into_iter().zip(verdicts) {
            self.settled(way, place, verdict);
        }
        on_their_way.into_iter().for_each(UnderWay::arrived);
    }

    fn settled(&self, way: Way, place: Place, verdict: Result<Imported>) {
        match verdict {
            Ok(Imported::Refused(reason)) => {
                let why = match reason {
                    RefusedReason::BelowHorizon => "it is older than what was swept away there",
                    RefusedReason::TooLarge => "it is larger than the limit there",
                    RefusedReason::Deleted => "it was deleted there",
                    RefusedReason::Invalid => "it says something that cannot be kept there",
                };
                self.turned_away(way, place, why);
            }
            Ok(imported) => {
                self.both().note(place);
                self.state.imported(way, place.origin, &imported);
            }
            Err(error) => self.not_imported(way, place, &error),
        }
    }

    fn not_imported(&self, way: Way, place: Place, error: &Error) {
        match error.kind() {
            kind if refuses(kind) => self.turned_away(way, place, &error.to_string()),
            ErrorKind::Denied | ErrorKind::Unsupported => {
                self.state.refused(way, 1);
                self.lane(way).close();
                let whose = if way == Way::Outward { "the peer takes" } else { "this host takes" };
                self.troubled(&format!("{whose} no messages over this link: {error}"));
            }
            _ => {
                let whose = if way == Way::Outward { "the peer" } else { "this host" };
                self.troubled(&format!("{whose} cannot store a message now: {error}"));
                self.state.still_missing(way);
                self.compare_later();
            }
        }
    }

    /// A message that will never be taken at its destination.
    fn turned_away(&self, way: Way, place: Place, why: &str) {
        tracing::warn!(peer = self.peer(), ?way, message = %place.origin, why, "a message is refused");
        self.lane(way).note_refused(place);
        self.state.refused(way, 1);
    }
}
