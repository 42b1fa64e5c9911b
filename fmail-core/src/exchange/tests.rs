//! Hosts that exchange what they hold by nothing but the operations.

mod convergence;
mod names;
mod records;
mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;

use fmail_api::{
    Client, Compared, Digest, DigestRequest, FetchRequest, Fingerprint, Held, ImportRequest, Imported, Message, Node,
    NodeId, Place, Request, Response, Stretch, ThreadRequest, Timestamp,
};
use futures::executor::block_on;

use crate::Operations;
use crate::testing::{Project, context, take};

/// A host with its project in memory.
struct Host {
    project: Project,
    run: NodeId,
}

impl std::ops::Deref for Host {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.project
    }
}

/// What an exchange took.
#[derive(Debug, Default, PartialEq)]
struct Took {
    digests: usize,
    fetched: usize,
    refused: usize,
}

fn host(number: u128) -> Host {
    let mut project = Project::new();
    project.operations = operations(&project, number);
    Host { project, run: NodeId::new(number) }
}

fn operations(project: &Project, number: u128) -> Operations {
    let (id, run) = (NodeId::new(1_000 + number), NodeId::new(number));
    let node = Node { id, run, host: format!("host-{number}") };
    Operations::new(project.store.clone(), project.clock.clone()).on(node)
}

fn zero(stretch: Stretch) -> Held {
    Held { stretch, count: 0, fingerprint: Fingerprint::default() }
}

impl Host {
    fn ask(&self, request: Request) -> Response {
        block_on(self.operations.call(&context("peer"), request)).unwrap().head
    }

    fn digest(&self, horizon: Option<Timestamp>, held: Vec<Held>) -> Digest {
        match self.ask(Request::Digest(DigestRequest { horizon, held })) {
            Response::Digest(digest) => digest,
            other => panic!("{other:?}"),
        }
    }

    fn compare(&self, horizon: Option<Timestamp>, held: Held) -> Compared {
        self.digest(horizon, vec![held]).answers.pop().unwrap()
    }

    fn held(&self, horizon: Option<Timestamp>, stretch: Stretch) -> Held {
        let sum = |one: Held, two: &Held| Held {
            count: one.count + two.count,
            fingerprint: one.fingerprint.and(two.fingerprint),
            ..one
        };
        match self.compare(horizon, zero(stretch)) {
            Compared::Same => zero(stretch),
            Compared::Parts(parts) => parts.iter().fold(zero(stretch), sum),
            Compared::Places(places) => places.iter().fold(zero(stretch), |held, place| {
                sum(held, &Held { stretch, count: 1, fingerprint: Fingerprint::of_place(place) })
            }),
        }
    }

    fn places_in(&self, horizon: Option<Timestamp>, stretch: Stretch) -> BTreeSet<Place> {
        match self.compare(horizon, zero(stretch)) {
            Compared::Same => BTreeSet::new(),
            Compared::Places(places) => places.into_iter().collect(),
            Compared::Parts(parts) => parts.iter().flat_map(|part| self.places_in(horizon, part.stretch)).collect(),
        }
    }

    fn places(&self) -> BTreeSet<Place> {
        self.places_in(None, Stretch::default())
    }

    fn fetch(&self, request: FetchRequest) -> Vec<Arc<Message>> {
        take(self.call("peer", Request::Fetch(request)).unwrap(), usize::MAX)
    }

    fn import(&self, message: &Message, from: NodeId) -> Imported {
        let request = ImportRequest { message: message.clone(), from: Some(from) };
        match self.ask(Request::Import(Box::new(request))) {
            Response::Imported(imported) => imported,
            other => panic!("{other:?}"),
        }
    }

    fn take_from(&self, other: &Host, horizon: Option<Timestamp>, places: BTreeSet<Place>, took: &mut Took) {
        if places.is_empty() {
            return;
        }
        let request = FetchRequest { places: places.into_iter().collect(), horizon, ..FetchRequest::default() };
        for message in other.fetch(request) {
            took.fetched += 1;
            if let Imported::Refused(_) = self.import(&message, other.run) {
                took.refused += 1;
            }
        }
    }

    /// The bodies of everything that is stored, in their own order.
    fn stored(&self) -> Vec<String> {
        let since = Some(fmail_api::Since::Time(Timestamp::from_unix(0, 0)));
        let reply = self.call("peer", Request::Relay(fmail_api::RelayRequest { since, to: None })).unwrap();
        let held = self.held(None, Stretch::default()).count as usize;
        let mut bodies: Vec<String> = take(reply, held).iter().map(|message| message.body.to_string()).collect();
        bodies.sort();
        bodies
    }

    fn thread(&self, id: impl ToString) -> Vec<String> {
        let mut bodies = self.thread_in_order(id);
        bodies.sort();
        bodies
    }

    fn thread_in_order(&self, id: impl ToString) -> Vec<String> {
        let reply = self.call("dave", Request::Thread(ThreadRequest { id: id.to_string() })).unwrap();
        let events = futures::executor::block_on_stream(reply.events.unwrap());
        events
            .map(|event| match event.unwrap() {
                fmail_api::Event::Mail(mail) => mail.message.body.as_str().unwrap().to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

/// Both hold the same afterwards. As a peer does it, the simplest way.
fn exchange(one: &Host, two: &Host) -> Took {
    let mut took = Took::default();
    let horizon = one.digest(None, Vec::new()).horizon.max(two.digest(None, Vec::new()).horizon);
    let mut left = vec![Stretch::default()];
    while let Some(stretch) = left.pop() {
        took.digests += 1;
        match two.compare(horizon, one.held(horizon, stretch)) {
            Compared::Same => {}
            Compared::Parts(parts) => {
                left.extend(parts.into_iter().filter_map(|part| {
                    let same = one.compare(horizon, part) == Compared::Same;
                    (!same).then_some(part.stretch)
                }));
            }
            Compared::Places(theirs) => {
                let (ours, theirs) = (one.places_in(horizon, stretch), theirs.into_iter().collect::<BTreeSet<_>>());
                one.take_from(two, horizon, &theirs - &ours, &mut took);
                two.take_from(one, horizon, &ours - &theirs, &mut took);
            }
        }
    }
    took
}
