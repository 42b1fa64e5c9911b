//! The other side of the boundary.

/// Where calls and answers go: the functions of a library, or lines to a child process.
///
/// Every function may be called from any thread and must not block. Any of them may call back into our own tables
/// before it returns, so no lock is held across one.
pub trait Peer: Send + Sync {
    /// Starts a call that we have chosen the id of.
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]);
    /// Allows so many more items.
    fn pull(&self, id: u64, credits: u32);
    /// Says that we no longer wait.
    fn cancel(&self, id: u64);
    /// Answers a call of the other side.
    fn done(&self, id: u64, status: i32, body: &[u8]);
    /// Sends an item of a stream that the other side has asked for. False: stop, nobody wants more.
    fn item(&self, id: u64, body: &[u8]) -> bool;
}

/// Hears what the other side answers, before anything is made of it.
pub trait Observer: Send + Sync {
    /// An answer came.
    fn done(&self, id: u64, status: i32, body: &[u8]);
    /// An item came.
    fn item(&self, id: u64, body: &[u8]);
}
