//! Waiting for very many connections at once.
//!
//! `poll` looks at every connection each time, which with a thousand of them costs more than what one of them has to say.
//! Here the kernel keeps the list, and tells only of those that can go on.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use fmail_api::{Error, Result};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::peer::Peer;

/// How many are told of at a time.
const AT_A_TIME: usize = 256;

/// A list of connections, which the kernel keeps.
pub struct Ready {
    list: OwnedFd,
    told: Vec<Event>,
    /// The places of those that also wait until they can write.
    writing: Vec<usize>,
}

impl Ready {
    /// Waits for these, which are told by their place.
    pub fn of<'a>(peers: impl Iterator<Item = &'a Peer>) -> Result<Self> {
        let list = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        for (place, peer) in peers.enumerate() {
            epoll::add(&list, peer, EventData::new_u64(place as u64), EventFlags::IN).map_err(failed)?;
        }
        Ok(Ready { list, told: Vec::with_capacity(AT_A_TIME), writing: Vec::new() })
    }

    /// Looks at whether this one has something left to write.
    pub fn look(&mut self, place: usize, peer: &Peer) -> Result<()> {
        let waits = self.writing.contains(&place);
        let flags = match (waits, peer.is_behind()) {
            (false, true) => {
                self.writing.push(place);
                EventFlags::IN | EventFlags::OUT
            }
            (true, false) => {
                self.writing.retain(|other| *other != place);
                EventFlags::IN
            }
            _ => return Ok(()),
        };
        epoll::modify(&self.list, peer, EventData::new_u64(place as u64), flags).map_err(failed)
    }

    /// Waits until some can go on, at most so long, and tells which ones.
    pub fn wait(&mut self, patience: Duration) -> Result<impl Iterator<Item = usize>> {
        let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        self.told.clear();
        epoll::wait(&self.list, rustix::buffer::spare_capacity(&mut self.told), Some(&patience)).map_err(failed)?;
        Ok(self.told.iter().map(|event| event.data.u64() as usize))
    }
}

fn failed(error: rustix::io::Errno) -> Error {
    Error::io("waiting for a server", &io::Error::from(error))
}
