//! A relay plugin: it runs, tells the state of its links, and ends.
#![allow(missing_docs)]

use async_trait::async_trait;
use fmail_abi::status;
use fmail_boundary::LittleHost;
use fmail_plugin::futures::executor::block_on;
use fmail_plugin::futures::stream::BoxStream;
use fmail_plugin::futures::{StreamExt, stream};
use fmail_plugin::{Error, ErrorKind, Host, Relay, RelayStatus, Result, Shutdown};
use serde_json::json;

fmail_plugin::relay! { name: "relay-test", open: |_| async { Ok(Example) } }

static TABLE: fmail_plugin::__macro::FmPlugin = fmail_plugin::__macro::table::<FmailPlugin>();

struct Example;

#[async_trait]
impl Relay for Example {
    async fn run(&self, host: Host, shutdown: Shutdown) -> Result<()> {
        shutdown.await;
        // This host serves nothing, and says so.
        match host.projects().await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(Error::new(ErrorKind::Unavailable, "no projects"))
            }
            other => panic!("{other:?}"),
        }
    }

    fn status(&self) -> BoxStream<'static, RelayStatus> {
        stream::iter([RelayStatus::default(), RelayStatus::default()]).chain(stream::pending()).boxed()
    }
}

#[test]
fn a_relay_tells_its_state_until_it_has_ended() {
    let host = block_on(LittleHost::start(&TABLE, &json!({ "role": "relay", "instance": "r" }), None)).unwrap();
    let mut running = host.stream("run", b"", b"{}");
    let mut next = || block_on(running.next()).unwrap();
    assert_eq!(&*next().unwrap(), b"{}");
    assert_eq!(&*next().unwrap(), br#"{"links":[]}"#);
    assert_eq!(&*next().unwrap(), br#"{"links":[]}"#);
    assert_eq!(block_on(host.call("shutdown", b"")).status, status::OK);
    let end = next().unwrap_err();
    assert_eq!((end.error().kind(), end.error().message()), (ErrorKind::Unavailable, "no projects"));
    assert_eq!(block_on(host.call("teleport", b"")).status, status::UNSUPPORTED);
    block_on(host.end()).into_result().unwrap();
}
