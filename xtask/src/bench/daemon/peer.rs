//! A connection of the load generator: bytes in both directions, and where one frame ends.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use fmail_api::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A server that says nothing for so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How much is read at a time; no frame is longer.
const BUFFER: usize = 256 * 1024;

thread_local! {
    /// What was read last. All connections of a thread share it: a thousand buffers of their own would not fit into the
    /// processor's memory, and the generator would measure that.
    static HEARD: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// Where a server listens.
#[derive(Debug, Clone)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// What a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// What was asked for is done.
    Acknowledgement,
    /// A message has arrived.
    Delivery,
    /// Something that does not count.
    Other,
}

/// Finds the first frame in the bytes and how long it is; nothing when it is not whole yet. An error of the server is an
/// error here: only what was accepted may be counted.
pub type Framing = fn(&[u8]) -> Result<Option<(Frame, usize)>>;

/// What is said to a server in one measurement.
pub struct Script {
    /// Where it listens.
    pub address: Address,
    /// How its answers are told apart.
    pub framing: Framing,
    /// What a sender says first, until it is acknowledged.
    pub greeting: Option<Vec<u8>>,
    /// What a watcher says first, until it is acknowledged.
    pub subscription: Option<Vec<u8>>,
    /// What a watcher says before each message, when it has to ask for it.
    pub request: Option<fn(u64) -> Vec<u8>>,
    /// How the message with this number is sent.
    pub publication: Box<dyn Fn(u64) -> Vec<u8> + Send>,
    /// Whether a publication is acknowledged.
    pub acknowledges: bool,
}

trait Socket: Read + Write + AsFd + Send {}
impl<T: Read + Write + AsFd + Send> Socket for T {}

/// A connection that never blocks.
pub struct Peer {
    socket: Box<dyn Socket>,
    framing: Framing,
    /// The beginning of a frame whose end has not come yet.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Peer {
    /// A connection for a sender.
    pub fn sender(script: &Script) -> Result<Self> {
        Peer::greeted(script, script.greeting.as_deref())
    }

    /// A connection that gets every message that is sent from now on.
    pub fn watcher(script: &Script) -> Result<Self> {
        Peer::greeted(script, script.subscription.as_deref())
    }

    fn greeted(script: &Script, greeting: Option<&[u8]>) -> Result<Self> {
        let socket = connect(&script.address).map_err(|error| Error::io("connecting to a server", &error))?;
        let mut peer = Peer { socket, framing: script.framing, incoming: Vec::new(), outgoing: Vec::new() };
        if let Some(greeting) = greeting {
            peer.say(greeting)?;
            peer.wait_for(Frame::Acknowledgement)?;
        }
        Ok(peer)
    }

    /// Writes what fits and keeps the rest for [`Peer::write`].
    pub fn say(&mut self, bytes: &[u8]) -> Result<()> {
        self.keep(bytes);
        self.write()
    }

    /// Keeps this for [`Peer::write`], so that it goes out together with what follows.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Whether something is left to write.
    pub fn is_behind(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Writes what was kept.
    pub fn write(&mut self) -> Result<()> {
        while !self.outgoing.is_empty() {
            match self.socket.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Error::io("writing to a server", &error)),
            }
        }
        Ok(())
    }

    /// Reads once, if there is something, and counts the frames of one kind.
    pub fn hear(&mut self, wanted: Frame) -> Result<usize> {
        HEARD.with_borrow_mut(|heard| {
            let before = self.incoming.len();
            heard[..before].copy_from_slice(&self.incoming);
            let filled = match self.socket.read(&mut heard[before..]) {
                Ok(0) => return Err(Error::internal("a server closed a connection in the middle of a measurement")),
                Ok(read) => before + read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) => return Err(Error::io("reading from a server", &error)),
            };
            let (mut start, mut count) = (0, 0);
            while let Some((frame, length)) = (self.framing)(&heard[start..filled])? {
                start += length;
                count += usize::from(frame == wanted);
            }
            if filled == BUFFER && start == 0 {
                return Err(Error::internal("a server says more at once than the generator can hear"));
            }
            self.incoming.clear();
            self.incoming.extend_from_slice(&heard[start..filled]);
            Ok(count)
        })
    }

    /// Waits until a frame of this kind has come.
    pub fn wait_for(&mut self, wanted: Frame) -> Result<()> {
        while self.hear(wanted)? == 0 {
            wait([&*self].into_iter())?;
            self.write()?;
        }
        Ok(())
    }

    fn interest(&self) -> PollFlags {
        if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until one of these can go on and tells which ones can, by their place.
pub fn wait<'a>(peers: impl Iterator<Item = &'a Peer>) -> Result<Vec<usize>> {
    let mut watched: Vec<PollFd<'_>> = peers.map(|peer| PollFd::new(peer, peer.interest())).collect();
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut watched, Some(&patience))
        .map_err(|error| Error::io("waiting for a server", &io::Error::from(error)))?;
    if ready == 0 {
        return Err(Error::internal(format!("a server said nothing for {} s", PATIENCE.as_secs())));
    }
    Ok((0..watched.len()).filter(|place| !watched[*place].revents().is_empty()).collect())
}

fn connect(address: &Address) -> io::Result<Box<dyn Socket>> {
    Ok(match address {
        Address::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_nonblocking(true)?;
            Box::new(socket)
        }
        Address::Tcp(address) => {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Box::new(socket)
        }
    })
}

/// Whether somebody answers there.
pub fn is_up(address: &Address) -> bool {
    connect(address).is_ok()
}
