//! Clients that others wrote.

use std::path::Path;
use std::process::Command;

use crate::Served;

/// What a page does: it watches, sends, and asks for what is wrong; each object that it gets is printed.
const PAGE: &str = r#"
const socket = new WebSocket(process.argv[2]);
const ask = (object) => socket.send(JSON.stringify({agent: "page", ...object}));
socket.onopen = () => { ask({cmd: "watch", topic: "task", req_id: "w"}); };
socket.onmessage = ({data}) => {
    const object = JSON.parse(data);
    if (object.event === "progress" || object.event === "ping") return;
    console.log(data);
    if (object.req_id === "w" && object.ok) ask({cmd: "send", to: "task", body: "from node", req_id: 1});
    if (object.req_id === 1) ask({cmd: "dance", req_id: 2});
    if (object.msg && object.msg.body === "from a command") socket.close(1000);
};
socket.onclose = ({code}) => { console.log(JSON.stringify({closed: code})); };
"#;

/// The options with which this machine's Node has a WebSocket; nothing without such a Node.
fn node() -> Option<Vec<&'static str>> {
    [vec![], vec!["--experimental-websocket"]].into_iter().find(|options| {
        let mut command = Command::new("node");
        let output =
            command.args(options).args(["-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn the_web_socket_of_node_watches_and_sends() {
    let Some(options) = node() else {
        eprintln!("there is no Node with a WebSocket here; Node 20.10 or newer has one");
        return;
    };
    let served = Served::start();
    let page = served.sandbox.outside().join("page.cjs");
    std::fs::write(&page, PAGE).unwrap();
    let mut node = served
        .sandbox
        .command(Path::new("node"))
        .args(options)
        .arg(page)
        .arg(format!("ws://{}", served.address))
        .spawn();
    assert_eq!(node.json()["req_id"], "w");
    let (mut sent, mut shown, mut refused) = (None, None, false);
    while sent.is_none() || shown.is_none() || !refused {
        let object = node.json();
        match object["req_id"].as_u64() {
            Some(1) => sent = object["id"].as_str().map(String::from),
            Some(2) => refused = object["error"]["code"] == "invalid_request",
            _ => shown = object["msg"]["id"].as_str().map(String::from),
        }
    }
    assert_eq!(shown, sent);
    served.sandbox.send("alice", "task", "from a command");
    assert_eq!(node.json()["msg"]["body"], "from a command");
    assert_eq!(node.json()["closed"], 1000);
    assert_eq!(node.wait().code, 0);
    assert_eq!(served.sandbox.bodies("bob", &["task"]), ["from node", "from a command"]);
}
