//! The Unix socket of one project.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Client, Error, ErrorKind, Host, Listening, Principal, ProjectRef, Result, Shutdown, Transport};
use futures::FutureExt;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

use crate::admission::Admission;
use crate::connection::{Limits, Route};
use crate::conversation::{CONNECT, Endpoint};
use crate::listener::{Accepted, Rules, Streams, run};
use crate::remote::connected;
use crate::wire::failure;

/// The socket's name in `.fmail/`.
pub const SOCKET: &str = "forged.sock";

/// The longest path that the kernel takes for a socket, with room for the byte that ends it.
const MAX_PATH: usize = 100;

/// Serves one project on the socket in its `.fmail/`.
pub struct UnixTransport {
    root: PathBuf,
    limits: Limits,
}

impl UnixTransport {
    /// A transport for the project in this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        UnixTransport { root: root.into(), limits: Limits::default() }
    }

    /// With other limits.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn directory(&self) -> PathBuf {
        self.root.join(".fmail")
    }
}

/// A path to a socket that the kernel takes, however deep the directory is.
///
/// A socket's address has room for about a hundred bytes. Beyond that the directory is opened, and named by
/// its descriptor; that needs no change of the current directory, which all threads share.
pub struct SocketPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

impl SocketPath {
    /// The path of the socket in this directory.
    pub fn within(directory: &Path) -> io::Result<SocketPath> {
        let path = directory.join(SOCKET);
        if path.as_os_str().len() <= MAX_PATH {
            return Ok(SocketPath { path, _directory: None });
        }
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
        let opened = fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()));
        Ok(SocketPath { path, _directory: Some(opened) })
    }

    /// Connects to whoever listens there.
    ///
    /// Not by the standard library: where a stopped daemon's queue is full, that would wait until it goes on.
    pub fn connect(&self) -> io::Result<net::UnixStream> {
        let descriptor = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let stream = net::UnixStream::from(descriptor);
        // The kernel counts waiting for a place in the queue as writing.
        stream.set_write_timeout(Some(CONNECT))?;
        rustix::net::connect(&stream, &SocketAddrUnix::new(&self.path)?)?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    }

    fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// The one project of the socket. Whether a request names it rightly is checked by its operations.
struct Only(Arc<dyn Client>);

#[async_trait]
impl Route for Only {
    async fn client(&self, _named: Option<&str>) -> Result<Arc<dyn Client>> {
        Ok(self.0.clone())
    }
}

#[async_trait]
impl Transport for UnixTransport {
    fn name(&self) -> &str {
        "unix"
    }

    async fn serve(&self, host: Arc<dyn Host>, shutdown: Shutdown) -> Result<Listening> {
        let client = host.open(ProjectRef::Root(self.root.clone())).await?;
        let shown = self.directory().join(SOCKET);
        let wrong = |error: io::Error| Error::io(format_args!("cannot listen on {}", shown.display()), &error);
        let socket = SocketPath::within(&self.directory()).map_err(wrong)?;
        make_room(&socket, &shown)?;
        let listener = bind(&socket).map_err(wrong)?;
        let uid = rustix::process::geteuid().as_raw();
        let listener = Arc::new(UnixListener::from_std(listener).map_err(wrong)?);
        let accept = move || {
            let listener = listener.clone();
            async move { accept(&listener, uid).await }
        };
        // The kernel says who the peer is; nothing else needs to be proved.
        let rules = Rules { route: Arc::new(Only(client)), admission: Admission::default(), limits: self.limits };
        let serving = run(accept, rules, shutdown);
        let finished = async move {
            let ended = serving.await;
            // Nobody answers there any more. Where it cannot be removed, the next daemon replaces it.
            let _ = socket.remove();
            ended
        };
        Ok(Listening { endpoint: format!("unix://{}", shown.display()), finished: finished.boxed() })
    }

    async fn connect(&self, _project: ProjectRef) -> Result<Arc<dyn Client>> {
        connected(Endpoint::Unix(self.directory()), None)
    }
}

/// Removes a socket on which nobody answers. One that answers stays, and so does anything that is no socket.
fn make_room(socket: &SocketPath, shown: &Path) -> Result<()> {
    let kind = match fs::symlink_metadata(&socket.path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(format_args!("cannot look at {}", shown.display()), &error)),
    };
    if !kind.is_socket() {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("{} is not a socket, so it is not ours to replace", shown.display()),
        )
        .help("remove it, then start again"));
    }
    // Who has a full queue does not answer now, but is there.
    if socket.connect().map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |_| true) {
        return Err(Error::new(ErrorKind::Conflict, format!("another daemon answers on {}", shown.display()))
            .help("stop it first: `forged stop`"));
    }
    tracing::info!(socket = %shown.display(), "replacing a socket on which nobody answers");
    socket.remove().map_err(|error| Error::io(format_args!("cannot remove {}", shown.display()), &error))
}

/// Binds, restricts, and only then listens: before that nobody can connect, so there is no moment with wrong permissions.
fn bind(socket: &SocketPath) -> io::Result<net::UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let descriptor: OwnedFd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&descriptor, &SocketAddrUnix::new(&socket.path)?)?;
    fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&descriptor, 1024)?;
    Ok(net::UnixListener::from(descriptor))
}

/// Lets in the owner of the daemon, and root, who could read everything anyway.
async fn accept(listener: &UnixListener, uid: u32) -> io::Result<Option<Accepted>> {
    let (stream, _) = listener.accept().await?;
    let peer = stream.peer_cred()?.uid();
    if peer != uid && peer != 0 {
        tracing::warn!(peer, "refused a connection of another user");
        let error = Error::new(ErrorKind::Denied, "this socket belongs to another user");
        // There is room for one line in a new connection; if not, closing it says enough.
        let _ = stream.try_write(failure(&error, None).as_bytes());
        return Ok(None);
    }
    let (reader, writer) = stream.into_split();
    let streams: Streams = (Box::new(reader), Box::new(writer));
    let opening = std::future::ready(Ok(Some(streams))).boxed();
    Ok(Some(Accepted { principal: Principal::User(peer), caller: None, opening }))
}
