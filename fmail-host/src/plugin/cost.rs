//! What a call of a plugin costs, wherever its code runs.

use std::time::{Duration, Instant};

use fmail_api::Result;
use futures::{StreamExt, TryStreamExt, stream};

use super::Instance;

/// Makes so many calls, of which so many are under way at any time, and gives the time that one took: all of it, divided by
/// their number. The first call that fails ends it.
pub async fn cost_of_calls(
    instance: &Instance,
    calls: u32,
    in_flight: usize,
    method: &'static str,
    request: &[u8],
) -> Result<Duration> {
    let begun = Instant::now();
    let calling = stream::iter(0..calls).map(|_| instance.call(method, b"", request));
    calling.buffer_unordered(in_flight.max(1)).try_for_each(|_| std::future::ready(Ok(()))).await?;
    Ok(begun.elapsed() / calls.max(1))
}
