//! Comparing what both ends hold, and carrying what one of them lacks.
//!
//! Both ends divide the order of places into stretches and say what they hold in each. A [`Question`] is put to one end
//! about what the other holds in a stretch; the answer settles it, or leads to questions about smaller stretches, until
//! what differs is listed. Everything that is asked at one time goes in one request, so that the number of round trips grows
//! with the depth of the division and not with the number of differences.

use fmail_api::{Compared, DigestRequest, Error, FetchRequest, Fingerprint, Held, Place, Result, Stretch, Timestamp};
use tokio::time::{Instant, sleep};

use super::carry::Known;
use super::session::{Session, Side};
use super::status::Way;

/// A stretch is divided so many times at most. Each division leaves a sixteenth or less; an end that goes on is not sane.
const DEEPEST: usize = 40;
/// So many questions at most are open at a time: an end that divides without end must not fill our memory.
const MOST_OPEN: usize = 200_000;
/// So many go in one request.
const ASKED: usize = 250;
/// So many places, or stretches, are fetched in one request.
const FETCHED: usize = 500;
const FETCHED_STRETCHES: usize = 100;

/// Asks the other end how what `holder` holds in a stretch differs from what it holds itself.
struct Question {
    holder: Side,
    held: Held,
    /// What exactly the holder holds there, where that is known.
    places: Option<Vec<Place>>,
    depth: usize,
}

/// What one end holds and the other lacks.
#[derive(Default)]
struct Lacking {
    places: Vec<Place>,
    stretches: Vec<Stretch>,
    /// How many messages that is, at most.
    count: u64,
}

impl Lacking {
    fn stretch(&mut self, stretch: Stretch, count: u64) {
        self.count += count;
        match self.stretches.last_mut() {
            Some(last) if last.to.is_some() && last.to == stretch.from => last.to = stretch.to,
            _ => self.stretches.push(stretch),
        }
    }

    fn place(&mut self, place: Place) {
        self.count += 1;
        self.places.push(place);
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.stretches.is_empty()
    }
}

/// What a comparison has found so far.
struct Comparison {
    open: [Vec<Question>; 2],
    /// What each end has and the other lacks.
    only: [Lacking; 2],
}

impl Comparison {
    fn new() -> Self {
        Comparison { open: [Vec::new(), Vec::new()], only: [Lacking::default(), Lacking::default()] }
    }

    fn only(&mut self, side: Side) -> &mut Lacking {
        &mut self.only[index(side)]
    }

    /// The next questions for one end. The nearer end is asked first: that costs nothing.
    fn take(&mut self) -> Option<(Side, Vec<Question>)> {
        for asked in [Side::Here, Side::There] {
            let open = &mut self.open[index(asked)];
            if !open.is_empty() {
                let rest = open.split_off(open.len().min(ASKED));
                return Some((asked, std::mem::replace(open, rest)));
            }
        }
        None
    }

    fn ask(&mut self, question: Question) -> Result<()> {
        let insane = || Error::invalid("the peer divides what it holds without coming to an end");
        let open = &mut self.open[index(question.holder.other())];
        if question.depth > DEEPEST || open.len() > MOST_OPEN {
            return Err(insane());
        }
        open.push(question);
        Ok(())
    }

    /// Takes in what the end that was asked holds.
    fn hear(&mut self, question: Question, compared: Compared) -> Result<()> {
        let Question { holder, held, places, depth } = question;
        let (asked, depth) = (holder.other(), depth + 1);
        let stretch = held.stretch;
        match &compared {
            Compared::Places(found) => check_within(found, &stretch)?,
            Compared::Parts(parts) => check_parts(parts, &stretch)?,
            Compared::Same => {}
        }
        match (compared, places) {
            (Compared::Same, _) => {}
            (Compared::Places(found), _) if found.is_empty() => self.only(holder).stretch(stretch, held.count),
            (Compared::Places(found), _) if held.count == 0 => {
                let count = found.len() as u64;
                self.only(asked).stretch(stretch, count);
            }
            (Compared::Places(found), Some(places)) => self.differ(holder, &places, &found),
            (Compared::Places(found), None) => {
                let held = held_of(stretch, &found);
                self.ask(Question { holder: asked, held, places: Some(found), depth })?;
            }
            (Compared::Parts(parts), _) if held.count == 0 => {
                let count = parts.iter().map(|part| part.count).sum();
                self.only(asked).stretch(stretch, count);
            }
            (Compared::Parts(parts), places) => {
                for part in parts {
                    self.divide(holder, part, places.as_deref(), depth)?;
                }
            }
        }
        Ok(())
    }

    /// A part of what the other end than the holder holds.
    fn divide(&mut self, holder: Side, part: Held, places: Option<&[Place]>, depth: usize) -> Result<()> {
        let asked = holder.other();
        let Some(places) = places else {
            if part.count == 0 {
                // The holder may have nothing there either; then nothing will be fetched.
                self.only(holder).stretch(part.stretch, 0);
                return Ok(());
            }
            return self.ask(Question { holder: asked, held: part, places: None, depth });
        };
        let own: Vec<Place> = places.iter().filter(|place| part.stretch.contains(place)).copied().collect();
        let held = held_of(part.stretch, &own);
        match (own.is_empty(), part.count == 0) {
            (true, true) => {}
            (true, false) => self.only(asked).stretch(part.stretch, part.count),
            (false, true) => own.into_iter().for_each(|place| self.only(holder).place(place)),
            (false, false) if held == part => {}
            (false, false) => self.ask(Question { holder, held, places: Some(own), depth })?,
        }
        Ok(())
    }

    /// Two lists, both in order.
    fn differ(&mut self, holder: Side, places: &[Place], found: &[Place]) {
        let lacking = |list: &[Place], place: &Place| list.binary_search(place).is_err();
        places.iter().filter(|place| lacking(found, place)).for_each(|place| self.only(holder).place(*place));
        let only = self.only(holder.other());
        found.iter().filter(|place| lacking(places, place)).for_each(|place| only.place(*place));
    }
}

impl Session {
    /// Compares what both ends hold and carries what one of them lacks, both ways at a time.
    ///
    /// `first` is the first comparison of a session; in later ones what differs may simply be on its way.
    pub(super) async fn reconcile(&self, first: bool) -> Result<()> {
        let began = Instant::now();
        let Some((horizon, mut found)) = self.begin().await? else { return Ok(()) };
        while let Some((asked, questions)) = found.take() {
            let held = questions.iter().map(|question| question.held).collect();
            let digest = self.end(asked).digest(DigestRequest { horizon, held }).await?;
            for (question, compared) in questions.into_iter().zip(digest.answers) {
                found.hear(question, compared)?;
            }
        }
        let [ours, theirs] = found.only;
        if ours.is_empty() && theirs.is_empty() {
            return Ok(());
        }
        if !first {
            sleep(self.settle()).await;
        }
        self.state.missing(Way::Outward, ours.count);
        self.state.missing(Way::Inward, theirs.count);
        self.has_news();
        let (outward, inward) = futures::join!(
            self.bring(Way::Outward, ours, horizon, began),
            self.bring(Way::Inward, theirs, horizon, began)
        );
        outward.and(inward)
    }

    /// Compares everything at once. Nothing when that is the same; where the other end has swept more away than we knew,
    /// the comparison begins anew above that.
    async fn begin(&self) -> Result<Option<(Option<Timestamp>, Comparison)>> {
        let mut horizon = self.horizon(None);
        loop {
            let nothing = Held { stretch: Stretch::default(), count: 0, fingerprint: Fingerprint::default() };
            let ours = self.end(Side::Here).digest(DigestRequest { horizon, held: vec![nothing] }).await?;
            let common = self.horizon(ours.horizon);
            if common != horizon {
                horizon = common;
                continue;
            }
            let held = match ours.answers.into_iter().next() {
                Some(Compared::Places(places)) => held_of(Stretch::default(), &places),
                Some(Compared::Parts(parts)) => parts.iter().fold(nothing, |sum, part| Held {
                    count: sum.count + part.count,
                    fingerprint: sum.fingerprint.and(part.fingerprint),
                    ..sum
                }),
                Some(Compared::Same) | None => nothing,
            };
            let theirs = self.end(Side::There).digest(DigestRequest { horizon, held: vec![held] }).await?;
            let common = self.horizon(theirs.horizon);
            if common != horizon {
                horizon = common;
                continue;
            }
            let mut found = Comparison::new();
            let question = Question { holder: Side::Here, held, places: None, depth: 0 };
            found.hear(question, theirs.answers.into_iter().next().unwrap_or(Compared::Same))?;
            return Ok(Some((horizon, found)));
        }
    }

    /// Fetches what the one end has and the other lacks, and imports it there.
    async fn bring(&self, way: Way, lacking: Lacking, horizon: Option<Timestamp>, began: Instant) -> Result<()> {
        let lane = self.lane(way);
        if lane.is_closed() {
            return Ok(());
        }
        let Lacking { places, stretches, .. } = lacking;
        let places: Vec<Place> = {
            let both = self.both();
            let wanted = |place: &Place| !both.hold_since(place, began) && !lane.has_refused(place);
            places.into_iter().filter(wanted).collect()
        };
        let of_places = places.chunks(FETCHED).map(|places| FetchRequest {
            places: places.to_vec(),
            stretches: Vec::new(),
            horizon,
        });
        let of_stretches = stretches.chunks(FETCHED_STRETCHES).map(|stretches| FetchRequest {
            places: Vec::new(),
            stretches: stretches.to_vec(),
            horizon,
        });
        for request in of_stretches.chain(of_places) {
            let events = self.end(way.origin()).fetch(request).await?;
            self.carry(way, events, Known::Since(began)).await?;
        }
        Ok(())
    }
}

fn index(side: Side) -> usize {
    usize::from(side == Side::There)
}

fn held_of(stretch: Stretch, places: &[Place]) -> Held {
    let fingerprint = places.iter().fold(Fingerprint::default(), |sum, place| sum.and(Fingerprint::of_place(place)));
    Held { stretch, count: places.len() as u64, fingerprint }
}

/// Places are in order and within what was asked for.
fn check_within(places: &[Place], stretch: &Stretch) -> Result<()> {
    let in_order = places.windows(2).all(|pair| pair[0] < pair[1]);
    if in_order && places.iter().all(|place| stretch.contains(place)) {
        return Ok(());
    }
    Err(Error::invalid("the peer lists places that are not in order, or that it was not asked for"))
}

/// Parts follow each other and stay within what was asked for.
fn check_parts(parts: &[Held], stretch: &Stretch) -> Result<()> {
    let follows =
        parts.windows(2).all(|pair| pair[0].stretch.to.is_some() && pair[0].stretch.to == pair[1].stretch.from);
    let (begin, end) = (parts.first().map(|part| part.stretch.from), parts.last().map(|part| part.stretch.to));
    let begins = begin.is_some_and(|from| from >= stretch.from);
    let ends =
        end.is_some_and(|to| to == stretch.to || stretch.to.is_none() || to.is_some_and(|to| Some(to) <= stretch.to));
    if follows && begins && ends {
        return Ok(());
    }
    Err(Error::invalid("the peer divides a stretch into parts that are not its own"))
}

#[cfg(test)]
mod tests {
    use fmail_api::{ContentHash, MessageId};

    use super::*;

    fn place(ticks: u64) -> Place {
        let time = Timestamp::from_unix(1_768_059_000, 0);
        Place { time, origin: MessageId::from_ticks(ticks).unwrap(), hash: ContentHash::of(&[&ticks.to_le_bytes()]) }
    }

    fn stretch(from: u64, to: u64) -> Stretch {
        Stretch { from: Some(place(from)), to: Some(place(to)) }
    }

    fn part(from: u64, to: u64) -> Held {
        Held { stretch: stretch(from, to), count: 1, fingerprint: Fingerprint::default() }
    }

    /// Asks about what `here` holds in the whole stretch, and hears this.
    fn hear(here: &[Place], compared: Compared) -> Result<Comparison> {
        let mut found = Comparison::new();
        let held = held_of(stretch(0, 100), here);
        found.hear(Question { holder: Side::Here, held, places: None, depth: 0 }, compared)?;
        Ok(found)
    }

    #[test]
    fn lists_that_differ_tell_exactly_what_each_lacks() {
        let mut found = hear(&[place(1), place(2)], Compared::Places(vec![place(2), place(3)])).unwrap();
        // What is held here has to be listed before the lists can be compared.
        let (asked, mut questions) = found.take().unwrap();
        assert_eq!((asked, questions.len()), (Side::Here, 1));
        found.hear(questions.remove(0), Compared::Places(vec![place(1), place(2)])).unwrap();
        let [ours, theirs] = found.only;
        assert_eq!((ours.places, theirs.places), (vec![place(1)], vec![place(3)]));
    }

    #[test]
    fn a_stretch_of_which_one_holds_nothing_is_not_listed() {
        let mut found = hear(&[], Compared::Parts(vec![part(0, 50), part(50, 100)])).unwrap();
        assert!(found.take().is_none());
        assert_eq!(found.only[1].stretches, [stretch(0, 100)]);
        let mut found = hear(&[place(1)], Compared::Places(vec![])).unwrap();
        assert!(found.take().is_none());
        assert_eq!(found.only[0].stretches, [stretch(0, 100)]);
    }

    #[test]
    fn stretches_that_follow_each_other_are_fetched_as_one() {
        let mut lacking = Lacking::default();
        for (from, to) in [(0, 10), (10, 20), (30, 40)] {
            lacking.stretch(stretch(from, to), 1);
        }
        assert_eq!(lacking.stretches, [stretch(0, 20), stretch(30, 40)]);
    }

    #[test]
    fn an_answer_that_is_not_about_what_was_asked_is_refused() {
        for wrong in [
            Compared::Places(vec![place(100)]),
            Compared::Places(vec![place(2), place(1)]),
            Compared::Places(vec![place(1), place(1)]),
            Compared::Parts(vec![]),
            Compared::Parts(vec![part(0, 50), part(60, 100)]),
            Compared::Parts(vec![part(0, 50), part(50, 200)]),
            Compared::Parts(vec![part(50, 100), part(0, 50)]),
        ] {
            assert!(hear(&[place(1)], wrong.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_peer_that_divides_without_end_is_given_up() {
        let mut found = hear(&[place(1)], Compared::Parts(vec![part(0, 100)])).unwrap();
        let mut rounds = 0;
        let given_up = loop {
            let (_, mut questions) = found.take().unwrap();
            rounds += 1;
            if let Err(error) = found.hear(questions.remove(0), Compared::Parts(vec![part(0, 100)])) {
                break error;
            }
        };
        assert!(rounds <= DEEPEST + 1 && given_up.to_string().contains("without coming to an end"), "{given_up}");
    }
}
