//! Streams that wait, very many of them.

use std::time::Instant;

use fmail_e2e::http::{Events, Http};
use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Footprint, eventually};

use crate::ping;

const MANY: usize = 1000;

fn listen(server: &MailServer, number: usize) -> Events {
    let session = format!("idle-{number}");
    let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", session.as_str())];
    server.connect().stream("GET", "/mcp/", &headers, b"")
}

#[test]
fn a_thousand_idle_streams_cost_little_and_leave_nothing() {
    // Each is a descriptor here too.
    raise_open_files();
    let server = MailServer::start();
    let look = || server.daemon.footprint();
    drop(listen(&server, 0));
    let before = Footprint::settled(look);
    let streams: Vec<Events> = (0..MANY).map(|number| listen(&server, number)).collect();
    let full = look();
    assert!(full.descriptors >= before.descriptors + MANY, "{before} {full}");
    assert!(full.kilobytes < before.kilobytes + 64 * 1024, "a stream takes too much: {before} {full}");
    let mut http = server.connect();
    let began = Instant::now();
    for number in 0..100 {
        assert_eq!(http.post("/mcp/", &[], &ping(number)).status(), 200);
    }
    assert!(began.elapsed().as_secs() < 10, "others are served beside them");
    drop(http);
    drop(streams);
    // What the allocator has once had it keeps, up to a point that it reaches soon; a leak would go on.
    let again = || {
        eventually(30, "the end of the streams", || (look().descriptors <= before.descriptors).then_some(()));
        drop((0..MANY).map(|number| listen(&server, number)).collect::<Vec<Events>>());
        eventually(30, "the end of the streams", || (look().descriptors <= before.descriptors).then_some(()));
        Footprint::settled(look)
    };
    let (_, third) = (again(), again());
    let (_, fifth) = (again(), again());
    assert_eq!(fifth.growth_since(third, 2 * 1024), [] as [&str; 0], "{before} {full} {third} {fifth}");
    assert_eq!(Http::connect(&server.address).post("/mcp/", &[], &ping("still there")).status(), 200);
    server.daemon.stop();
}

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).expect("the own limit");
}
