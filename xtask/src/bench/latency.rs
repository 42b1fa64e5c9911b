//! From a send to the line that a running watch prints, with nothing else going on and while others send.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
    fn start(mut command: Command) -> Result<Self> {
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

    let timed = |number: usize| -> Result<(f64, f64)> {
        let text = format!("message {number}.");
        let start = Instant::now();
        send(&text)?;
        let end = Instant::now();
        let arrival = watch.arrival(&text, Duration::from_secs(5)).ok_or_else(lost)?;
        // The line may come first: the message is visible before its name is made durable and the sender ends.
        let early = end.saturating_duration_since(arrival).as_secs_f64();
        Ok(((arrival - start).as_secs_f64(), arrival.saturating_duration_since(end).as_secs_f64() - early))
    };
    let (mut from_start, mut from_end): (Vec<f64>, Vec<f64>) =
        (0..rounds).map(timed).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    add(report, "from before `fmail send` is started to the watch's line", &mut from_start, Some(GOAL));
    add(report, "from the end of `fmail send` to the watch's line", &mut from_end, None);

    let others = || stage.fmail(&project, &["send", "others", "work of others"]);
    let most = crowd(None, CAPACITY, others, || Ok(()))?;
    let mut number = rounds;
    let mut loaded = Vec::new();
    crowd(Some(most / 2.0), Duration::ZERO, others, || {
        for _ in 0..rounds {
            number += 1;
            loaded.push(timed(number)?.0);
        }
        Ok(())
    })?;
    let what = format!("the same while others send at half of what they can, {:.0} messages/s", most / 2.0);
    add(report, &what, &mut loaded, Some(GOAL));
    Ok(())
}

/// 99 of 100 messages have to be there within this time.
const GOAL: f64 = 0.005;

/// For how long it is tried how many messages others can send.
const CAPACITY: Duration = Duration::from_secs(1);

/// So many others send.
const OTHERS: usize = 2;

fn add(report: &mut Report, what: &str, samples: &mut [f64], goal: Option<f64>) {
    let (half, most) = (quantile(samples, 0.5), quantile(samples, 0.99));
    report.figure(what, format!("p50 {}, p99 {}", shown_seconds(half), shown_seconds(most)));
    if let Some(goal) = goal {
        report.goal(&format!("p99 under {:.0} ms", goal * 1e3), most < goal);
    }
}

/// Lets others send, all together this many messages a second or as many as they can, while something is done and at least
/// for so long. Says how many they sent each second.
fn crowd(
    rate: Option<f64>,
    span: Duration,
    command: impl Fn() -> Command + Sync,
    during: impl FnOnce() -> Result<()>,
) -> Result<f64> {
    let (over, sent, begun) = (AtomicBool::new(false), AtomicU32::new(0), Instant::now());
    let pause = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(OTHERS as f64 / rate.max(1.0)));
    let work = || -> Result<()> {
        let mut next = Instant::now();
        while !over.load(Ordering::Relaxed) {
            succeed(&mut command())?;
            sent.fetch_add(1, Ordering::Relaxed);
            next += pause;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..OTHERS).map(|_| scope.spawn(work)).collect();
        let done = during();
        std::thread::sleep(span.saturating_sub(begun.elapsed()));
        over.store(true, Ordering::Relaxed);
        let panicked = |_| Err(Error::internal("a sender panicked"));
        running.into_iter().try_for_each(|sender| sender.join().unwrap_or_else(panicked)).and(done)
    })?;
    Ok(f64::from(sent.into_inner()) / begun.elapsed().as_secs_f64())
}
