//! One process for all requests: a line each way, answers in any order.
//!
//! The process is started with `serve` as its last argument when the first request comes, and again when it has died. A
//! request that is not answered in time ends it: nobody knows what it is busy with. Whoever waited for it then hears so.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use futures::channel::oneshot;
use futures::future::{Either, select};
use futures_timer::Delay;
use serde_json::{Map, Value};

use super::Request;
use crate::process::{Group, keep_end};
use crate::script::{Call, Script, excerpt_of, saying};

/// How long a process that was told to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// How much is kept of what it says to its operator.
const SAID: usize = 4 << 10;

type Answer = Result<Map<String, Value>, String>;

/// The long-lived process of a script.
pub(super) struct Lines {
    script: Arc<Script>,
    next: AtomicU64,
    live: Mutex<Option<Arc<Live>>>,
}

/// A process that runs.
struct Live {
    group: Mutex<Group>,
    stdin: Mutex<Option<ChildStdin>>,
    /// Who waits for which answer; none once the process is known to be gone, and why.
    waiting: Mutex<std::result::Result<HashMap<u64, oneshot::Sender<Answer>>, String>>,
    said: Mutex<Vec<u8>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    pub(super) fn new(script: Arc<Script>) -> Self {
        Lines { script, next: AtomicU64::new(1), live: Mutex::new(None) }
    }

    /// Asks, and gives the answer.
    pub(super) async fn exchange(&self, call: &Call<'_>, request: &Request<'_>) -> Result<Map<String, Value>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut line = request.envelope(&self.script, id).to_string();
        line.push('\n');
        let live = self.live(call)?;
        let (answer, answered) = oneshot::channel();
        match &mut *lock(&live.waiting) {
            Ok(waiting) => drop(waiting.insert(id, answer)),
            Err(why) => return Err(call.error(ErrorKind::Unavailable, format!("{why}{}", saying(&live.said())))),
        }
        let forget = Forget { live: &live, id };
        // Writing may block when the process does not read, so it is done by somebody who may.
        let writer = live.clone();
        let write = move || {
            let mut stdin = lock(&writer.stdin);
            let written = stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
            if let Some(Err(_)) | None = written {
                // The reader tells everyone why.
                let _ = lock(&writer.group).kill();
            }
        };
        let started = thread::Builder::new().name("fmail-exec-write".into()).spawn(write);
        started.map_err(|error| call.not_started(&error))?;
        let result = match select(answered, Delay::new(self.script.options.timeout)).await {
            Either::Left((Ok(Ok(answer)), _)) => Ok(answer),
            Either::Left((Ok(Err(why)), _)) => Err(call.failed(ErrorKind::Unavailable, &why, &live.said())),
            Either::Left((Err(_), _)) => Err(call.failed(ErrorKind::Unavailable, "is gone", &live.said())),
            Either::Right(_) => {
                let what = format!(
                    "had not answered after {:?}, and was killed with all that it has started",
                    self.script.options.timeout
                );
                // The next request gets a process of its own, also before the reader has noticed.
                lock(&self.live).take_if(|current| Arc::ptr_eq(current, &live));
                let _ = lock(&live.group).kill();
                Err(call
                    .failed(ErrorKind::Timeout, &what, &live.said())
                    .help("raise `timeout` in the exec store's section"))
            }
        };
        drop(forget);
        result
    }

    /// The process, started when there is none.
    fn live(&self, call: &Call<'_>) -> Result<Arc<Live>> {
        let mut live = lock(&self.live);
        if let Some(live) = live.as_ref().filter(|live| lock(&live.waiting).is_ok()) {
            return Ok(live.clone());
        }
        let options = &self.script.options;
        let command: Vec<String> = options.command.iter().cloned().chain(["serve".to_string()]).collect();
        let mut group =
            Group::start(&command, options.directory.as_ref(), true).map_err(|error| call.not_started(&error))?;
        let missing = || Error::internal("a process without its pipes");
        let stdin = group.child.stdin.take().ok_or_else(missing)?;
        let stdout = group.child.stdout.take().ok_or_else(missing)?;
        let stderr = group.child.stderr.take().ok_or_else(missing)?;
        let started = Arc::new(Live {
            group: Mutex::new(group),
            stdin: Mutex::new(Some(stdin)),
            waiting: Mutex::new(Ok(HashMap::new())),
            said: Mutex::default(),
        });
        let (listener, most) = (started.clone(), options.max_output);
        let listen = thread::Builder::new().name("fmail-exec-read".into()).spawn(move || listener.listen(stdout, most));
        listen.map_err(|error| call.not_started(&error))?;
        let listener = started.clone();
        let overhear = thread::Builder::new().name("fmail-exec-log".into()).spawn(move || listener.overhear(stderr));
        overhear.map_err(|error| call.not_started(&error))?;
        *live = Some(started.clone());
        Ok(started)
    }

    /// Ends the input, on which a script ends; one that does not is ended.
    pub(super) async fn close(&self) {
        let Some(live) = lock(&self.live).take() else { return };
        if let Ok(mut stdin) = live.stdin.try_lock() {
            *stdin = None;
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && !matches!(lock(&live.group).ended(), Ok(Some(_))) {
            Delay::new(Duration::from_millis(5)).await;
        }
        let _ = lock(&live.group).kill();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(live) = lock(&self.live).take() {
            let _ = lock(&live.group).kill();
        }
    }
}

/// Whoever does not wait any more is not told.
struct Forget<'a> {
    live: &'a Live,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Ok(waiting) = &mut *lock(&self.live.waiting) {
            waiting.remove(&self.id);
        }
    }
}

impl Live {
    /// Hands each answer to who waits for it, until the process is gone.
    fn listen(&self, stdout: ChildStdout, most: usize) {
        let mut reader = BufReader::new(stdout);
        let why = loop {
            let mut line = Vec::new();
            match reader.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line) {
                Ok(0) => break self.ending(),
                Ok(_) if line.len() > most => {
                    break format!("wrote a line of more than {most} bytes (`max_output`), and was killed");
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => {
                    if let Err(why) = self.deliver(&line) {
                        break why;
                    }
                }
                Err(error) => break format!("cannot be read: {error}"),
            }
        };
        let _ = lock(&self.group).kill();
        let waiting = std::mem::replace(&mut *lock(&self.waiting), Err(why.clone()));
        for (_, answer) in waiting.unwrap_or_default() {
            let _ = answer.send(Err(why.clone()));
        }
    }

    fn deliver(&self, line: &[u8]) -> std::result::Result<(), String> {
        let shown = || excerpt_of(&String::from_utf8_lossy(&line[..line.len().min(1000)]), 200);
        let answer: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| format!("wrote a line that is no answer ({error}), and was killed: {}", shown()))?;
        let id = answer.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok());
        let Some(id): Option<u64> = id else {
            return Err(format!("wrote an answer without the `id` of a request, and was killed: {}", shown()));
        };
        // Whoever waited may have given up.
        if let Ok(waiting) = &mut *lock(&self.waiting)
            && let Some(waiter) = waiting.remove(&id)
        {
            let _ = waiter.send(Ok(answer));
        }
        Ok(())
    }

    /// How the process ended, when its output has.
    fn ending(&self) -> String {
        let deadline = Instant::now() + GRACE;
        loop {
            match lock(&self.group).ended() {
                Ok(Some(status)) => return format!("is gone ({status})"),
                _ if Instant::now() >= deadline => return "has closed its output, and was killed".into(),
                _ => {}
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn overhear(&self, mut stderr: ChildStderr) {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut piece) {
            let mut said = lock(&self.said);
            said.extend_from_slice(&piece[..count]);
            keep_end(&mut said, SAID);
        }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&lock(&self.said)).trim().to_string()
    }
}
