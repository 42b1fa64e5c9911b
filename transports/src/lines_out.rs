//! What a stream has to say, put together before it is written.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use fmail_api::{Error, EventStream};
use futures::StreamExt;

use crate::wire::{self, ReqId, Style};

/// How much of a stream is put together before it is written.
const WRITE_BYTES: usize = 64 * 1024;
/// Room for that and for the last line, if it has the usual length.
const ROOM: usize = WRITE_BYTES + 8 * 1024;

thread_local! {
    /// The room that was used last on this thread. A daemon's thousand watchers say the same things in turn; each with room of
    /// its own would hold on to much memory, or make room for every line anew.
    static ROOM_LEFT: Cell<String> = const { Cell::new(String::new()) };
}

/// Lines of a stream. Their room is given back when they have been written.
pub struct Lines {
    pub text: String,
}

/// How far a stream has come.
pub enum Said {
    /// There is, or will be, more.
    More,
    /// That was all.
    All,
    /// It ends with an error.
    Failed(Error),
}

impl Lines {
    /// No line yet.
    pub fn begin() -> Self {
        Lines { text: String::new() }
    }

    /// Waits for an event, and adds its line and those of all that are there already: what is there goes out together.
    pub async fn collect(&mut self, events: &mut EventStream, req_id: Option<&ReqId>, style: Style) -> Said {
        poll_fn(|context| {
            let mut heard = false;
            loop {
                match events.poll_next_unpin(context) {
                    Poll::Ready(Some(Ok(event))) => {
                        heard = true;
                        if self.text.capacity() == 0 {
                            self.text = room();
                        }
                        wire::add_event(&mut self.text, &event, req_id, style);
                        if self.text.len() >= WRITE_BYTES {
                            return Poll::Ready(Said::More);
                        }
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Said::Failed(error)),
                    Poll::Ready(None) => return Poll::Ready(Said::All),
                    Poll::Pending if heard => return Poll::Ready(Said::More),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        // What a long line needed is not kept.
        if (1..=ROOM).contains(&text.capacity()) {
            text.clear();
            ROOM_LEFT.set(text);
        }
    }
}

fn room() -> String {
    let left = ROOM_LEFT.take();
    if left.capacity() > 0 { left } else { String::with_capacity(ROOM) }
}
