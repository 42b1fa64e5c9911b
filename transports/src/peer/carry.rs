//! Messages from one end to the other.

use std::collections::HashSet;
use std::sync::Arc;

use fmail_api::{
    Delivery, Error, ErrorKind, Event, EventStream, Imported, Message, NoticeKind, Place, RefusedReason, Result,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::session::Session;
use super::status::Way;

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
    /// Imports what a stream delivers, several at a time, until it ends. The error is the stream's.
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
                (slot, event) = self.next(way, &mut events), if more => match event {
                    Some(Ok(Event::Message(delivery))) => under_way.push(self.pass(way, delivery, known, slot)),
                    Some(Ok(other)) => self.hinted(way, &other),
                    Some(Err(error)) => ended = Some(Err(error)),
                    None => ended = Some(Ok(())),
                },
                else => return ended.unwrap_or(Ok(())),
            }
        }
    }

    /// The next event, once there is room for one more message.
    async fn next(&self, way: Way, events: &mut EventStream) -> (Option<SemaphorePermit<'_>>, Option<Result<Event>>) {
        let slot = self.lane(way).slots.acquire().await.ok();
        (slot, events.next().await)
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

    async fn pass(&self, way: Way, delivery: Delivery, known: Known, slot: Option<SemaphorePermit<'_>>) {
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
            return;
        }
        let lane = self.lane(way);
        if lane.is_closed() || lane.has_refused(&place) {
            return;
        }
        let size = delivery.line().len().min(self.pace.bytes);
        let _room = lane.bytes.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await;
        let on_its_way = (way == Way::Outward).then(|| self.state.departs());
        let message = Arc::unwrap_or_clone(delivery.message);
        self.import(way, place, message).await;
        if let Some(on_its_way) = on_its_way {
            on_its_way.arrived();
        }
        drop(slot);
    }

    async fn import(&self, way: Way, place: Place, message: Message) {
        let from = self.end(way.origin()).run;
        match self.end(way.destination()).import(message, Some(from)).await {
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
        use ErrorKind::{Conflict, InvalidAgent, InvalidRequest, InvalidTopic, NotFound, TooLarge, Unsupported};
        match error.kind() {
            InvalidRequest | InvalidTopic | InvalidAgent | TooLarge | Conflict | NotFound => {
                self.turned_away(way, place, &error.to_string());
            }
            ErrorKind::Denied | Unsupported => {
                self.state.refused(way, 1);
                self.lane(way).close();
                let whose = if way == Way::Outward { "the peer takes" } else { "this host takes" };
                self.troubled(&format!("{whose} no messages over this link: {error}"));
            }
            _ => {
                let whose = if way == Way::Outward { "the peer" } else { "this host" };
                self.troubled(&format!("{whose} cannot store a message now: {error}"));
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
