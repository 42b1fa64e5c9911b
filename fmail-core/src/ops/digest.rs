//! `digest`: how what a peer holds differs from what is held here.

use fmail_api::{Compared, Digest, DigestRequest, Error, Held, Result, Stretch};

use crate::Operations;
use crate::exchange::{Inventory, first_at};

/// Up to so many places are named, where a stretch differs.
const LISTED: usize = 64;
/// Otherwise it is divided into so many parts.
const PARTS: usize = 16;
/// About so many bytes of JSON are answered. Behind that, a stretch that differs is answered as it is, in one part: whoever
/// asks goes on with those that were divided first.
const BYTES: usize = 256 * 1024;
/// What a place or a part takes of them.
const PLACE_BYTES: usize = 90;
const PART_BYTES: usize = 270;

impl Operations {
    /// Compares what the caller holds with what is held here, stretch by stretch. Nothing below the later of both horizons
    /// counts.
    pub(crate) async fn digest(&self, request: DigestRequest) -> Result<Digest> {
        self.check_exchange("compare what it holds with other hosts")?;
        if request.held.len() > DigestRequest::MOST {
            let found = request.held.len();
            return Err(Error::invalid(format!(
                "{found} stretches are to be compared, at most {} are allowed",
                DigestRequest::MOST
            ))
            .help("compare them in several requests"));
        }
        if request.held.is_empty() {
            return Ok(Digest { horizon: self.exchange.horizon().await?, answers: Vec::new() });
        }
        let horizon = self.exchange.bring_up_to_date().await?;
        let bottom = horizon.max(request.horizon).map(first_at);
        let mut left = BYTES;
        let answers = self.exchange.look(|inventory| {
            request.held.iter().map(|theirs| compare(inventory, theirs, bottom, &mut left)).collect()
        });
        Ok(Digest { horizon, answers })
    }

    /// What is exchanged with other hosts can be asked for only where their messages can be stored too.
    pub(crate) fn check_exchange(&self, what: &str) -> Result<()> {
        if self.store.capabilities().import { Ok(()) } else { Err(Error::unsupported(what)) }
    }
}

fn compare(inventory: &Inventory, theirs: &Held, bottom: Option<fmail_api::Place>, left: &mut usize) -> Compared {
    let whole = theirs.stretch;
    let counted = Stretch { from: whole.from.max(bottom), to: whole.to };
    let ours = inventory.held(counted);
    if (ours.count, ours.fingerprint) == (theirs.count, theirs.fingerprint) {
        return Compared::Same;
    }
    let (listed, needed) = match ours.count as usize {
        count if count <= LISTED => (true, count * PLACE_BYTES),
        _ => (false, PARTS * PART_BYTES),
    };
    if needed > *left && ours.count > 0 {
        return Compared::Parts(vec![Held { stretch: whole, ..ours }]);
    }
    *left -= needed;
    match listed {
        true => Compared::Places(inventory.places(&counted).copied().collect()),
        false => Compared::Parts(inventory.divided(whole, counted, PARTS)),
    }
}
