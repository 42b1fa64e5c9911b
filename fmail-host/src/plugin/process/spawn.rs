//! Starting a program so that nothing of it outlives us and nothing of ours gets into it.
//!
//! The only `unsafe` of this folder: what a child has to do to itself between fork and exec cannot be said without.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::Program;

/// Starts the program, in a process group of its own and with pipes on all three standard streams.
///
/// It is killed when the *thread* that called this ends, however that comes about: the kernel ties it to the thread, not to
/// the process. No other file of ours is open in it.
pub(super) fn spawn(program: &Program) -> io::Result<Child> {
    let mut command = Command::new(&program.command[0]);
    command.args(&program.command[1..]).current_dir(program.directory());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    for (name, _) in std::env::vars_os() {
        if !program.passes(&name) {
            command.env_remove(name);
        }
    }
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whoever lost its parent before the line above would never be told.
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        close_on_exec();
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec. It makes system calls and compares numbers: it takes no
    // lock, allocates nothing and cannot panic, so it does not matter what other threads were doing at the fork.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Marks all but the standard streams to be closed by exec. Rust opens every file that way; a C library that is loaded
/// into this process may not.
fn close_on_exec() {
    // SAFETY: a system call on numbers. A kernel older than 5.11 knows neither call nor flag and answers with an error that
    // changes nothing; what Rust opened is marked anyway.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
