//! A second store with what the first holds.

use std::path::Path;

use fmail_api::{Error, Event, Imported, Query, Result};
use futures::executor::block_on;
use futures::{StreamExt, TryStreamExt};

use crate::place::Place;

/// So many messages on their way at a time, so that a store can commit many at once.
const UNDER_WAY: usize = 512;

/// Imports every message of the files of one project into a store of another.
pub fn run(from: &Path, to: &Path, store: &str) -> Result<()> {
    let (from, to) = (Place::new(from)?.store("files")?, Place::new(to)?.store(store)?);
    block_on(async {
        let messages = from.scan(Query::default()).await?.messages;
        let importing = messages.map(|event| {
            let to = to.clone();
            async move {
                let Event::Message(delivery) = event? else { return Ok(()) };
                match to.import(delivery.message.as_ref().clone()).await? {
                    Imported::New => Ok(()),
                    other => Err(Error::internal(format!("a message of the fixture was not new: {other:?}"))),
                }
            }
        });
        importing.buffer_unordered(UNDER_WAY).try_for_each(|()| std::future::ready(Ok(()))).await?;
        to.close().await?;
        from.close().await
    })
}
