//! The bytes of RFC 6455, right and wrong.

use std::io::Write;
use std::net::TcpStream;

use fmail_e2e::web_socket::{Frame, WebSocket, opcode};
use serde_json::{Value, json};

use crate::Served;

fn topics(req_id: &str) -> Value {
    json!({"cmd": "topics", "agent": "page", "req_id": req_id})
}

/// Requires that a connection works.
#[track_caller]
fn works(socket: &mut WebSocket) {
    let answer = socket.ask(&topics("works"));
    assert_eq!((&answer["ok"], &answer["req_id"]), (&json!(true), &json!("works")));
}

#[test]
fn a_message_may_come_in_pieces_with_a_ping_between() {
    let served = Served::start();
    let mut socket = served.connect();
    let text = json!({"cmd": "send", "agent": "page", "to": "task", "body": "grüße 🦀", "req_id": 1}).to_string();
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
    for (number, piece) in pieces.iter().enumerate() {
        let kind = if number == 0 { opcode::TEXT } else { opcode::CONTINUATION };
        socket.frame(number + 1 == pieces.len(), kind, piece);
        if number == 1 {
            socket.frame(true, opcode::PING, b"there?");
            assert_eq!(socket.read(), Frame::Pong(b"there?".to_vec()));
        }
    }
    assert_eq!(socket.object()["ok"], true);
    assert_eq!(served.sandbox.bodies("bob", &["task"]), ["grüße 🦀"]);
}

#[test]
fn a_frame_byte_by_byte_is_read() {
    let served = Served::start();
    let mut socket = served.connect();
    let text = topics("slow").to_string();
    let mask = [1, 2, 3, 4];
    let mut bytes = vec![0x80 | opcode::TEXT, 0x80 | u8::try_from(text.len()).unwrap()];
    bytes.extend(mask);
    bytes.extend(text.bytes().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    for byte in bytes {
        socket.bytes(&[byte]);
    }
    assert_eq!(socket.object()["req_id"], "slow");
}

#[test]
fn what_is_too_large_is_refused_by_its_code() {
    let served = Served::configured("max_frame_bytes = 4096");
    let mut other = served.connect();
    let mut socket = served.connect();
    let large = json!({"cmd": "send", "agent": "page", "to": "task", "body": "x".repeat(5000)});
    socket.send(&large);
    assert_eq!(socket.read(), Frame::Close(1009));
    // In pieces, of which each is small enough.
    let mut socket = served.connect();
    for number in 0..10 {
        socket.frame(false, if number == 0 { opcode::TEXT } else { opcode::CONTINUATION }, &[b' '; 1000]);
    }
    assert_eq!(socket.read(), Frame::Close(1009));
    // And one that only says so, of which nothing comes.
    let mut socket = served.connect();
    socket.bytes(&[0x81, 0xff, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
    assert_eq!(socket.read(), Frame::Close(1009));
    works(&mut other);
    assert_eq!(served.sandbox.log("bob", &[]).len(), 0);
}

#[test]
fn binary_messages_are_refused_by_their_code() {
    let served = Served::start();
    let mut socket = served.connect();
    socket.frame(true, opcode::BINARY, topics("binary").to_string().as_bytes());
    assert_eq!(socket.read(), Frame::Close(1003));
    works(&mut served.connect());
}

#[test]
fn what_is_against_the_rfc_ends_its_own_connection_only() {
    let served = Served::start();
    let mut other = served.connect();
    let cases: [(&str, &[u8], u16); 6] = [
        ("no mask", &[0x81, 2, b'{', b'}'], 1002),
        ("a reserved bit", &[0xc1, 0x80, 1, 2, 3, 4], 1002),
        ("an unknown kind", &[0x83, 0x80, 1, 2, 3, 4], 1002),
        ("a continuation of nothing", &[0x80, 0x80, 1, 2, 3, 4], 1002),
        ("a ping in pieces", &[0x09, 0x80, 1, 2, 3, 4], 1002),
        ("a text that is not UTF-8", &[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
    ];
    for (what, bytes, code) in cases {
        let mut socket = served.connect();
        socket.bytes(bytes);
        assert_eq!(socket.read(), Frame::Close(code), "{what}");
        works(&mut other);
    }
}

#[test]
fn a_close_is_answered() {
    let served = Served::start();
    let mut socket = served.connect();
    works(&mut socket);
    socket.frame(true, opcode::CLOSE, &1000_u16.to_be_bytes());
    assert_eq!(socket.read(), Frame::Close(1000));
    assert_eq!(socket.read(), Frame::Gone);
}

#[test]
fn peers_that_say_nothing_or_garbage_disturb_nobody() {
    let served = Served::start();
    let silent = TcpStream::connect(&served.address).unwrap();
    let mut half = TcpStream::connect(&served.address).unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nUpgrade: webso").unwrap();
    let mut garbage = TcpStream::connect(&served.address).unwrap();
    garbage.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, b'\r', b'\n', b'\r', b'\n']).unwrap();
    let mut half_frame = served.connect();
    half_frame.bytes(&[0x81, 0xff, 0, 0]);
    // It asks for a stream and never reads it.
    let mut deaf = served.connect();
    deaf.send(&json!({"cmd": "watch", "agent": "deaf"}));
    let mut gone = served.connect();
    gone.send(&json!({"cmd": "watch", "agent": "gone"}));
    drop(gone);
    let mut socket = served.connect();
    for number in 0..20 {
        let answer = socket.ask(&json!({"cmd": "send", "agent": "page", "to": "task", "body": number}));
        assert_eq!(answer["ok"], true);
    }
    drop((silent, half, garbage, half_frame, deaf));
    works(&mut socket);
}
