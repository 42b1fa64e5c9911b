//! From a send to the line that a running watch prints.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
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

    let arrivals = |name: &str, rounds: usize| -> Result<Arrivals> {
        let mut arrivals = Arrivals::default();
        for number in 0..rounds {
            let text = format!("{name} {number}.");
            let start = Instant::now();
            send(&text)?;
            let end = Instant::now();
            let arrival = watch.arrival(&text, Duration::from_secs(5)).ok_or_else(lost)?;
            arrivals.from_start.push((arrival - start).as_secs_f64());
            // The line may come first: the message is visible before its name is made durable and the sender ends.
            let early = end.saturating_duration_since(arrival).as_secs_f64();
            arrivals.from_end.push(arrival.saturating_duration_since(end).as_secs_f64() - early);
            arrivals.sends.push((end - start).as_secs_f64());
        }
        Ok(arrivals)
    };
    let mut idle = arrivals("idle", rounds)?;
    idle.tell("", report);
    // One sender after the other without a pause is all that one of them can do; every other time is half of it.
    let pace = Duration::from_secs_f64(2.0 * quantile(&mut idle.sends, 0.5));
    let load = Load::start(stage.fmail(&project, &["send", "load", "half of what a sender can do"]), pace)?;
    let loaded = arrivals("loaded", rounds);
    load.end()?;
    loaded?.tell(", at half load", report);
    Ok(())
}

/// When the lines of messages came, in seconds.
#[derive(Default)]
struct Arrivals {
    from_start: Vec<f64>,
    from_end: Vec<f64>,
    /// How long each sender took.
    sends: Vec<f64>,
}

impl Arrivals {
    fn tell(&mut self, when: &str, report: &mut Report) {
        let (half, most) = (quantile(&mut self.from_start, 0.5), quantile(&mut self.from_start, 0.99));
        let what = "from before `fmail send` is started to the watch's line";
        report.figure(format!("{what}{when}"), format!("p50 {}, p99 {}", shown_seconds(half), shown_seconds(most)));
        report.goal(&format!("p99 under {:.0} ms", MOST * 1e3), most < MOST);
        let (half, most) = (quantile(&mut self.from_end, 0.5), quantile(&mut self.from_end, 0.99));
        let what = "from the end of `fmail send` to the watch's line";
        report.figure(format!("{what}{when}"), format!("p50 {}, p99 {}", shown_seconds(half), shown_seconds(most)));
    }
}

/// The goal for what 99 of 100 messages take from the start of their sender, in seconds.
const MOST: f64 = 0.005;

/// A command that is run again and again at a pace, on a thread of its own.
struct Load {
    ending: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Load {
    fn start(mut command: Command, pace: Duration) -> Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        let ended = ending.clone();
        let run = move || -> Result<()> {
            let mut due = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                succeed(&mut command)?;
                due += pace;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("load".into()).spawn(run);
        Ok(Load { ending, thread: thread.map_err(|error| Error::io("no thread for the load", &error))? })
    }

    fn end(self) -> Result<()> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(Error::internal("the load ended unexpectedly")))
    }
}
