//! A link between two hosts that can be slow, stand still, lose its end or break, in each direction on its own.
//!
//! It is a proxy: the host that dials gets its address, and what it says is passed on to the other. All links of a network
//! run on one thread, which lives in the namespace of the network; so nothing of it uses the machine's own addresses.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// What is done to the bytes of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// They come later by this much. What was sent together stays together.
    pub delay: Duration,
    /// Nothing passes; the connection stays open.
    pub stalled: bool,
    /// After so many more bytes the connection breaks, mostly in the middle of a line.
    pub truncate_after: Option<u64>,
}

/// A direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host that dialled.
    Forth = 0,
    /// To the host that dialled.
    Back = 1,
}

/// What is done to a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Faults {
    ways: [Way; 2],
    /// So many new connections are closed at once.
    refused: u64,
    /// Grows with each cut: connections of before end.
    cuts: u64,
}

/// What has passed a link.
#[derive(Debug, Default)]
struct Counts {
    bytes: [AtomicU64; 2],
    connections: AtomicU64,
}

/// One link. It lives as long as the [`Links`] that it came from.
#[derive(Clone)]
pub struct Link {
    faults: Arc<watch::Sender<Faults>>,
    counts: Arc<Counts>,
    address: SocketAddr,
}

impl Link {
    /// Where the host that dials finds it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens in a direction, to open connections too.
    pub fn set(&self, direction: Direction, way: Way) {
        self.faults.send_modify(|faults| faults.ways[direction as usize] = way);
    }

    /// Breaks all connections, as when a router restarts.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// So many new connections are closed as soon as they are there; those that are open stay.
    pub fn refuse(&self, number: u64) {
        self.faults.send_modify(|faults| faults.refused = number);
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.faults.send_modify(|faults| *faults = Faults { cuts: faults.cuts, ..Faults::default() });
    }

    /// How many bytes were passed on in a direction.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.counts.bytes[direction as usize].load(Relaxed)
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Relaxed)
    }
}

/// A link to be opened.
struct Order {
    listen: SocketAddr,
    to: SocketAddr,
    /// What the host at the other end sees as the origin of the connection.
    source: Ipv4Addr,
    opened: std::sync::mpsc::Sender<io::Result<Link>>,
}

/// The thread on which links run. They end with it.
pub struct Links {
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Starts the thread, in this network namespace if one is given.
    pub fn start(namespace: Option<PathBuf>) -> io::Result<Links> {
        let (orders, incoming) = mpsc::unbounded_channel();
        let (entered, answer) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("links".into()).spawn(move || {
            let ready = enter(namespace)
                .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build());
            match ready {
                Ok(runtime) => {
                    let _ = entered.send(Ok(()));
                    runtime.block_on(serve(incoming));
                }
                Err(error) => drop(entered.send(Err(error))),
            }
        })?;
        answer.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the links ended")))?;
        Ok(Links { orders: Some(orders), thread: Some(thread) })
    }

    /// Opens a link. It listens on `listen`, whose port may be 0, and connects from `source` to `to`.
    pub fn open(&self, listen: SocketAddr, to: SocketAddr, source: Ipv4Addr) -> io::Result<Link> {
        let (opened, answer) = std::sync::mpsc::channel();
        let gone = || io::Error::other("the thread of the links ended");
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send(Order { listen, to, source, opened }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sockets that this thread opens belong to the namespace; the other threads of the process stay where they are.
fn enter(namespace: Option<PathBuf>) -> io::Result<()> {
    let Some(path) = namespace else { return Ok(()) };
    let namespace = File::open(path)?;
    Ok(move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network))?)
}

/// Opens links until nobody can ask for one any more; then everything here ends.
async fn serve(mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        let opened = match TcpListener::bind(order.listen).await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        }) {
            Ok((listener, address)) => {
                let faults = Arc::new(watch::Sender::new(Faults::default()));
                let link = Link { faults, counts: Arc::default(), address };
                tokio::spawn(accept(listener, link.clone(), order.to, order.source));
                Ok(link)
            }
            Err(error) => Err(error),
        };
        let _ = order.opened.send(opened);
    }
}

async fn accept(listener: TcpListener, link: Link, to: SocketAddr, source: Ipv4Addr) {
    while let Ok((dialled, _)) = listener.accept().await {
        let link = link.clone();
        tokio::spawn(async move {
            if link.refuses() {
                return;
            }
            link.counts.connections.fetch_add(1, Relaxed);
            let mut faults = link.faults.subscribe();
            let cuts = faults.borrow_and_update().cuts;
            let broken = async { drop(faults.wait_for(|faults| faults.cuts != cuts).await) };
            tokio::select! {
                () = broken => {}
                () = pass(dialled, &link, to, source) => {}
            }
        });
    }
}

/// Passes bytes on in both directions until a side has ended and everything has been said, or something breaks.
async fn pass(dialled: TcpStream, link: &Link, to: SocketAddr, source: Ipv4Addr) {
    let Ok(other) = connect(to, source).await else { return };
    let _ = (dialled.set_nodelay(true), other.set_nodelay(true));
    let (from_dialler, to_dialler) = dialled.into_split();
    let (from_other, to_other) = other.into_split();
    // A direction that ends by itself leaves the other open; one that breaks takes it along.
    let both = async {
        tokio::try_join!(
            carry(from_dialler, to_other, link, Direction::Forth),
            carry(from_other, to_dialler, link, Direction::Back),
        )
    };
    let _ = both.await;
}

async fn connect(to: SocketAddr, source: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect(to).await
}

/// How much is read at a time.
const CHUNK: usize = 16 * 1024;

/// How many chunks may be under way in a slow direction. Beyond that the sender is not read from, as on a real line.
const UNDER_WAY: usize = 256;

/// One direction: what is read gets the moment at which it may leave, and another task lets it leave then.
async fn carry(mut from: OwnedReadHalf, to: OwnedWriteHalf, link: &Link, direction: Direction) -> io::Result<()> {
    let (chunks, waiting) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let read = async move {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            let due = Instant::now() + link.faults.borrow().ways[direction as usize].delay;
            if chunks.send((due, buffer[..length].to_vec())).await.is_err() {
                return Ok(());
            }
        }
    };
    tokio::try_join!(read, leave(waiting, to, link, direction)).map(|_| ())
}

async fn leave(
    mut waiting: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    link: &Link,
    direction: Direction,
) -> io::Result<()> {
    let mut faults = link.faults.subscribe();
    while let Some((due, bytes)) = waiting.recv().await {
        tokio::time::sleep_until(due).await;
        let gone = |_| io::Error::other("the link is gone");
        let way = faults.wait_for(|faults| !faults.ways[direction as usize].stalled).await.map_err(gone)?.ways;
        let (bytes, breaks) = match way[direction as usize].truncate_after {
            Some(left) if left <= bytes.len() as u64 => (&bytes[..left as usize], true),
            _ => (&bytes[..], false),
        };
        // Counted first: who has read them may ask at once how many there were.
        link.counts.bytes[direction as usize].fetch_add(bytes.len() as u64, Relaxed);
        to.write_all(bytes).await?;
        link.spend(direction, bytes.len() as u64);
        if breaks {
            // What was written is to arrive: a reset would take it back from the reader.
            to.shutdown().await?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    to.shutdown().await
}

impl Link {
    /// Whether a connection that has come is to be closed.
    fn refuses(&self) -> bool {
        self.faults.send_if_modified(|faults| {
            let refuses = faults.refused > 0;
            faults.refused = faults.refused.saturating_sub(1);
            refuses
        })
    }

    /// Counts down to the truncation. It happens once: the next connection is whole.
    fn spend(&self, direction: Direction, bytes: u64) {
        self.faults.send_if_modified(|faults| {
            let after = &mut faults.ways[direction as usize].truncate_after;
            let Some(left) = *after else { return false };
            *after = (left > bytes).then(|| left - bytes);
            true
        });
    }
}
