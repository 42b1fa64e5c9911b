//! How many files the daemon may have open, and how many heaps.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to what the system allows this process. Every client is an open file, and the usual limit of 1024 is
/// there for programs that could not handle more.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, files = limit.current, "the limit of open files cannot be raised");
    }
}

/// Lets glibc have one heap for each processor and at least two, where it would have eight for each, and give back every large
/// block as soon as it is free.
///
/// A daemon has as many threads as there are requests at a time, and each heap keeps what the largest of them has once taken.
/// Whoever has set one of the allocator's variables knows better. Called before there is a second thread.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
pub fn bound_heaps() {
    const LARGE: libc::c_int = 256 * 1024;
    let variables = ["GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"];
    if variables.iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let heaps = libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX).max(2);
    // SAFETY: it sets numbers in the allocator, for which it takes the allocator's own lock; nothing is passed by address.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, heaps);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 * LARGE);
    }
}

/// Other allocators have no such limit.
#[cfg(not(target_env = "gnu"))]
pub fn bound_heaps() {}
