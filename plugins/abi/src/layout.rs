//! The structs of `fmail_plugin.h`, field by field. `tests/layout.rs` compares sizes and offsets with what a C compiler
//! makes of the header.

use std::ffi::{c_char, c_void};

/// `FM_MAGIC`.
pub const MAGIC: u64 = 0x314E_4C50_4C41_4D46;
/// `FM_ABI_MAJOR`.
pub const ABI_MAJOR: u32 = 1;
/// `FM_ABI_MINOR`.
pub const ABI_MINOR: u32 = 0;
/// The only symbol that a plugin exports, as a C string.
pub const SYMBOL: &std::ffi::CStr = c"fmail_plugin_v1";

/// `fm_bytes`: text that is borrowed for the time of one function call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmBytes {
    /// Where it begins; may be null when it is empty.
    pub ptr: *const u8,
    /// How many bytes it has.
    pub len: usize,
}

impl FmBytes {
    /// Nothing.
    pub const EMPTY: FmBytes = FmBytes { ptr: std::ptr::null(), len: 0 };

    /// Lends a slice. The other side may use it until the function that it is passed to returns.
    pub fn lend(bytes: &[u8]) -> FmBytes {
        FmBytes { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// What was lent to us.
    ///
    /// # Safety
    /// `ptr` must be valid for `len` bytes for as long as the result is used, as rule 1 of the header promises for the
    /// time of the function that received it. A null pointer is taken as empty whatever the length says.
    #[allow(unsafe_code)]
    pub unsafe fn borrowed<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: the caller vouches for pointer and length.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// `fm_host`. A field of it is read only where `size` covers it.
#[repr(C)]
pub struct FmHost {
    /// How large the struct is in the host.
    pub size: u32,
    /// The highest minor that the host speaks.
    pub abi_minor: u32,
    /// The host's own.
    pub data: *mut c_void,
    /// What is above this level need not be logged.
    pub log_level: u32,
    /// Zero.
    pub reserved: u32,
    /// Answers a call of the host.
    pub done: extern "C" fn(*const FmHost, u64, i32, FmBytes),
    /// Sends an item; anything but 0 means stop.
    pub item: extern "C" fn(*const FmHost, u64, FmBytes) -> i32,
    /// Says something to the operator: level, target, message, fields.
    pub log: extern "C" fn(*const FmHost, u32, FmBytes, FmBytes, FmBytes),
    /// Calls the host: id, method, context, request.
    pub call: extern "C" fn(*const FmHost, u64, FmBytes, FmBytes, FmBytes),
    /// Asks for more items of such a call.
    pub pull: extern "C" fn(*const FmHost, u64, u32),
    /// Gives such a call up.
    pub cancel: extern "C" fn(*const FmHost, u64),
    /// Something beyond this struct.
    pub extension: extern "C" fn(*const FmHost, *const c_char) -> *const c_void,
}

/// `fm_plugin`. The functions are optional here because a wrong plugin may have null where one must be.
#[repr(C)]
pub struct FmPlugin {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`ABI_MAJOR`].
    pub abi_major: u32,
    /// The minor that the plugin was built with.
    pub abi_minor: u32,
    /// How large the struct is in the plugin.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// JSON, ended by a zero byte.
    pub manifest: *const c_char,
    /// Starts an instance.
    pub create: Option<extern "C" fn(*const FmHost, u64, FmBytes) -> *mut c_void>,
    /// Starts a call: id, method, context, request.
    pub call: Option<extern "C" fn(*mut c_void, u64, FmBytes, FmBytes, FmBytes)>,
    /// Allows more items.
    pub pull: Option<extern "C" fn(*mut c_void, u64, u32)>,
    /// Gives a call up.
    pub cancel: Option<extern "C" fn(*mut c_void, u64)>,
    /// Ends an instance.
    pub destroy: Option<extern "C" fn(*mut c_void, u64)>,
    /// Answers a call of the plugin.
    pub done: Option<extern "C" fn(*mut c_void, u64, i32, FmBytes)>,
    /// Sends an item of a stream that the plugin asked for.
    pub item: Option<extern "C" fn(*mut c_void, u64, FmBytes) -> i32>,
    /// Something beyond this struct.
    pub extension: Option<extern "C" fn(*mut c_void, *const c_char) -> *const c_void>,
}

// SAFETY: the struct is read-only data of a library that is never unloaded (rule 7), and its functions may be called
// from any thread (rule 5).
#[allow(unsafe_code)]
unsafe impl Sync for FmPlugin {}
