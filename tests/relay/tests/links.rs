//! Links do to bytes what they are told, in one direction without the other.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fmail_relay_tests::{Direction, Link, Links, Way};

/// A link to a listener of our own, with a connection through it.
struct Line {
    _links: Links,
    link: Link,
    listener: TcpListener,
    near: TcpStream,
    far: TcpStream,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Line {
    fn new() -> Line {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let links = Links::start(None).unwrap();
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let link = links.open(any, listener.local_addr().unwrap(), Ipv4Addr::LOCALHOST).unwrap();
        let near = TcpStream::connect(link.address()).unwrap();
        let far = listener.accept().unwrap().0;
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Line { _links: links, link, listener, near, far }
    }

    fn reconnect(&mut self) {
        self.near = TcpStream::connect(self.link.address()).unwrap();
        self.far = self.listener.accept().unwrap().0;
        self.far.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, text: &str) {
    from.write_all(text.as_bytes()).unwrap();
    let mut read = vec![0; text.len()];
    to.read_exact(&mut read).unwrap();
    assert_eq!(read, text.as_bytes());
}

/// Everything until the connection ends, whether in order or not.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

/// Nothing is there to be read.
fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    let read = stream.read(&mut [0; 1]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    read.is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
}

#[test]
fn bytes_pass_in_both_directions_and_are_counted() {
    let mut line = Line::new();
    pass(&mut line.near, &mut line.far, "hello");
    pass(&mut line.far, &mut line.near, "and back");
    assert_eq!((line.link.bytes(Direction::Forth), line.link.bytes(Direction::Back)), (5, 8));
    assert_eq!(line.link.connections(), 1);
}

#[test]
fn one_direction_stands_still_until_it_is_healed_and_nothing_is_lost() {
    let mut line = Line::new();
    line.link.set(Direction::Forth, Way { stalled: true, ..Way::default() });
    line.near.write_all(b"late").unwrap();
    pass(&mut line.far, &mut line.near, "the other direction passes");
    assert!(is_silent(&mut line.far));
    line.link.heal();
    let mut read = [0; 4];
    line.far.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"late");
}

#[test]
fn a_delay_holds_each_byte_for_its_time() {
    let mut line = Line::new();
    let delay = Duration::from_millis(200);
    line.link.set(Direction::Back, Way { delay, ..Way::default() });
    pass(&mut line.near, &mut line.far, "at once");
    let start = Instant::now();
    pass(&mut line.far, &mut line.near, "later");
    assert!(start.elapsed() >= delay, "{:?}", start.elapsed());
}

#[test]
fn a_truncated_line_ends_in_its_middle_and_the_next_connection_is_whole() {
    let mut line = Line::new();
    line.link.set(Direction::Forth, Way { truncate_after: Some(7), ..Way::default() });
    pass(&mut line.near, &mut line.far, "one\n");
    line.near.write_all(b"and two\n").unwrap();
    assert_eq!(rest(&mut line.far), "and");
    assert_eq!(rest(&mut line.near), "");
    line.reconnect();
    pass(&mut line.near.try_clone().unwrap(), &mut line.far, "whole again, and longer\n");
}

#[test]
fn a_cut_ends_the_connections_of_now_and_none_of_later() {
    let mut line = Line::new();
    pass(&mut line.near, &mut line.far, "before");
    line.link.cut();
    assert_eq!((rest(&mut line.near), rest(&mut line.far)), (String::new(), String::new()));
    line.reconnect();
    pass(&mut line.near.try_clone().unwrap(), &mut line.far, "after");
    assert_eq!(line.link.connections(), 2);
}

#[test]
fn a_link_that_refuses_closes_what_comes_and_keeps_what_is_there() {
    let mut line = Line::new();
    line.link.refuse(2);
    for _ in 0..2 {
        assert_eq!(rest(&mut TcpStream::connect(line.link.address()).unwrap()), "");
    }
    pass(&mut line.near, &mut line.far, "still here");
    line.reconnect();
    pass(&mut line.near.try_clone().unwrap(), &mut line.far, "the third passes");
}

#[test]
fn an_end_is_passed_on_and_the_other_direction_stays_open() {
    let mut line = Line::new();
    line.near.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest(&mut line.far), "");
    pass(&mut line.far, &mut line.near, "answer");
}
