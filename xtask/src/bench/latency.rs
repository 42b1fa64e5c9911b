//! From a send to the line that a running watch prints.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use super::report::{Report, shown_seconds};
use super::stage::{Stage, succeed};
use super::timing::quantile;

/// A watch whose lines are stamped as they arrive. It ends with this value.
struct Watch {
    process: Child,
    lines: Receiver<(Instant, String)>,
}

impl Watch {
    fn start(mut command: std::process::Command) -> Result<Self> {
        let starting = |error: std::io::Error| Error::io("starting `fmail watch`", &error);
        let mut process = command.stdout(Stdio::piped()).spawn().map_err(starting)?;
        let output = process.stdout.take().ok_or_else(|| Error::internal("`fmail watch` has no output"))?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(Watch { process, lines })
    }

    /// When the line that contains `text` arrived, if it does within `patience`.
    fn arrival(&self, text: &str, patience: Duration) -> Option<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            let (at, line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
            if line.contains(text) {
                return Some(at);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let project = stage.project("latency", 0)?;
    let watch = Watch::start(stage.fmail(&project, &["watch", "bench", "--json"]))?;
    let send = |text: &str| succeed(&mut stage.fmail(&project, &["send", "bench", text]));

    // A watch does not say when it has begun; the first message that it prints does.
    let lost = || Error::internal("`fmail watch` did not print a message that was sent");
    let is_watching = |number: usize| -> Result<bool> {
        let text = format!("warm-up {number}.");
        send(&text)?;
        Ok(watch.arrival(&text, Duration::from_millis(200)).is_some())
    };
    let mut warm_ups = 0;
    while !is_watching(warm_ups)? {
        warm_ups += 1;
        if warm_ups == 50 {
            return Err(lost());
        }
    }

    let (mut from_start, mut from_end) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        let text = format!("message {number}.");
        let start = Instant::now();
        send(&text)?;
        let end = Instant::now();
        let arrival = watch.arrival(&text, Duration::from_secs(5)).ok_or_else(lost)?;
        from_start.push((arrival - start).as_secs_f64());
        // The line may come first: the message is visible before its name is made durable and the sender ends.
        let early = end.saturating_duration_since(arrival).as_secs_f64();
        from_end.push(arrival.saturating_duration_since(end).as_secs_f64() - early);
    }
    for (what, samples, goal) in [
        ("from before `fmail send` is started to the watch's line", &mut from_start, 0.010),
        ("from the end of `fmail send` to the watch's line", &mut from_end, 0.005),
    ] {
        let (half, most) = (quantile(samples, 0.5), quantile(samples, 0.99));
        report.figure(what, format!("p50 {}, p99 {}", shown_seconds(half), shown_seconds(most)));
        report.goal(&format!("p50 at most {:.0} ms", goal * 1e3), half <= goal);
    }
    Ok(())
}
