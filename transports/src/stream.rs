//! The blocking sockets of a client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fmail_api::{Error, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::tls::{TlsClient, handshake_error};

/// A connection, however it is made.
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Why a handshake did not succeed.
pub enum Unshaken {
    /// The other side is not whom we believe, or does not speak TLS.
    Refused(Error),
    /// The connection failed.
    Lost(io::Error),
}

impl Stream {
    /// A connection over which TLS will be spoken. Nothing is said yet.
    pub fn tls(socket: TcpStream, address: SocketAddr, client: &TlsClient) -> Result<Stream> {
        let name = ServerName::IpAddress(address.ip().into());
        let connection = ClientConnection::new(client.0.clone(), name)
            .map_err(|error| Error::internal(format!("TLS cannot be started: {error}")))?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    /// Makes sure that the other side is whom we believe, where TLS is spoken.
    pub fn shake_hands(&mut self) -> Result<(), Unshaken> {
        let Stream::Tls(stream) = self else { return Ok(()) };
        let StreamOwned { conn, sock } = &mut **stream;
        while conn.is_handshaking() {
            if let Err(error) = conn.complete_io(sock) {
                let known = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                return Err(match (known, sock.peer_addr()) {
                    (Some(known), Ok(address)) => Unshaken::Refused(handshake_error(address, known)),
                    _ => Unshaken::Lost(error),
                });
            }
        }
        Ok(())
    }

    /// How long a read and a write may take.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)).and(stream.set_write_timeout(Some(time))),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)).and(stream.set_write_timeout(Some(time))),
            Stream::Tls(stream) => {
                stream.sock.set_read_timeout(Some(time)).and(stream.sock.set_write_timeout(Some(time)))
            }
        }
    }

    /// Another handle of the same socket.
    pub fn socket(&self) -> io::Result<Socket> {
        match self {
            Stream::Unix(stream) => stream.try_clone().map(Socket::Unix),
            Stream::Tcp(stream) => stream.try_clone().map(Socket::Tcp),
            Stream::Tls(stream) => stream.sock.try_clone().map(Socket::Tcp),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// What a connection is made of.
pub enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Ends the connection, whoever reads it.
    pub fn shut_down(&self) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
        }
    }
}
