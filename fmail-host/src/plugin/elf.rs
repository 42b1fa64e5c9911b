//! A look at the header of a file: whether it is a library, and one for this machine. A library for another one would
//! fail in the loader, with a message that names neither.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The first bytes of every ELF file.
const MAGIC: &[u8; 4] = b"\x7fELF";
const SHARED_OBJECT: u16 = 3;
const LOADED: u32 = 1;
const DYNAMIC: u32 = 2;
const FLAGS_1: u64 = 0x6fff_fffb;
const PIE: u64 = 0x0800_0000;
/// No header that we look for has more entries; a forged number must not keep us busy.
const MAX_ENTRIES: u64 = 100_000;

/// The header of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub wide: bool,
    pub little: bool,
    pub kind: u16,
    pub machine: u16,
    segments: u64,
    segment_size: u64,
    segment_count: u64,
}

/// A stretch of the file, and where it is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub kind: u32,
    pub offset: u64,
    pub address: u64,
    pub size: u64,
}

/// Checks that the file is a shared library that this very program could load.
#[cfg(target_os = "linux")]
pub fn check_library(file: &File) -> Result<(), String> {
    let Some(found) = Header::read(file) else {
        let mut start = [0; 4];
        let got = match file.read_exact_at(&mut start, 0) {
            Ok(()) => format!("a file that begins with {:?}", String::from_utf8_lossy(&start)),
            Err(_) => "a file of less than four bytes".to_string(),
        };
        return Err(format!("expected a library (ELF), got {got}"));
    };
    let own = File::open("/proc/self/exe").ok().and_then(|own| Header::read(&own));
    if let Some(own) = own.filter(|own| own.target() != found.target()) {
        return Err(format!("expected a library for {}, got one for {}", own.shown(), found.shown()));
    }
    if found.kind != SHARED_OBJECT || found.is_program(file) {
        return Err("expected a library, got a program".into());
    }
    // The loader would map what is not there, and the first look at it ends the process.
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let loaded = found.segments(file).into_iter().filter(|segment| segment.kind == LOADED);
    let end = loaded.map(|segment| segment.offset.saturating_add(segment.size)).max().unwrap_or(u64::MAX);
    if end > length {
        return Err(format!("expected a whole library, got the first {length} bytes of one"));
    }
    Ok(())
}

/// The loader's own message has to do where libraries are not ELF.
#[cfg(not(target_os = "linux"))]
pub fn check_library(_file: &File) -> Result<(), String> {
    Ok(())
}

/// Whether the file is a shared library and not a program.
pub fn is_library(file: &File) -> bool {
    Header::read(file).is_some_and(|header| header.kind == SHARED_OBJECT && !header.is_program(file))
}

impl Header {
    /// The header, if the file has one.
    pub fn read(file: &File) -> Option<Header> {
        let mut bytes = [0; 64];
        file.read_exact_at(&mut bytes[..52], 0).ok()?;
        // The longer header of wide files; a narrow file may end before.
        let _ = file.read_exact_at(&mut bytes, 0);
        if &bytes[..4] != MAGIC {
            return None;
        }
        let (wide, little) = (bytes[4] == 2, bytes[5] == 1);
        let number = |at: usize, size: usize| number_at(&bytes, at, size, little);
        let (segments, segment_size, segment_count) = match wide {
            true => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
            false => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
        };
        let (kind, machine) = (number(16, 2)? as u16, number(18, 2)? as u16);
        Some(Header { wide, little, kind, machine, segments, segment_size, segment_count })
    }

    fn target(&self) -> (bool, bool, u16) {
        (self.wide, self.little, self.machine)
    }

    /// The target, as an error names it.
    fn shown(&self) -> String {
        let machine = match self.machine {
            3 => "x86".to_string(),
            8 => "mips".into(),
            20 => "powerpc".into(),
            21 => "powerpc64".into(),
            22 => "s390x".into(),
            40 => "arm".into(),
            62 => "x86_64".into(),
            183 => "aarch64".into(),
            243 => "riscv".into(),
            258 => "loongarch".into(),
            other => format!("machine {other}"),
        };
        let (bits, order) = (if self.wide { 64 } else { 32 }, if self.little { "little" } else { "big" });
        format!("{machine}, {bits} bits, {order} endian")
    }

    /// The segments. Of a file that was cut or forged, those that can be read.
    pub fn segments(&self, file: &File) -> Vec<Segment> {
        let one = |index: u64| {
            let mut bytes = [0; 56];
            let size = if self.wide { 56 } else { 32 };
            let at = self.segments.checked_add(index.checked_mul(self.segment_size)?)?;
            file.read_exact_at(&mut bytes[..size], at).ok()?;
            let number = |at: usize, size: usize| number_at(&bytes, at, size, self.little);
            let kind = number(0, 4)? as u32;
            Some(match self.wide {
                true => Segment { kind, offset: number(8, 8)?, address: number(16, 8)?, size: number(32, 8)? },
                false => Segment { kind, offset: number(4, 4)?, address: number(8, 4)?, size: number(16, 4)? },
            })
        };
        (0..self.segment_count).map_while(one).collect()
    }

    /// The entries of the dynamic section: tag and value.
    pub fn dynamic(&self, file: &File) -> Vec<(u64, u64)> {
        let Some(segment) = self.segments(file).into_iter().find(|segment| segment.kind == DYNAMIC) else {
            return Vec::new();
        };
        let half = if self.wide { 8 } else { 4 };
        let entry = |index: u64| {
            let mut bytes = [0; 16];
            let at = segment.offset.checked_add(index * 2 * half as u64)?;
            file.read_exact_at(&mut bytes[..2 * half], at).ok()?;
            let number = |at: usize| number_at(&bytes, at, half, self.little);
            Some((number(0)?, number(half)?)).filter(|(tag, _)| *tag != 0)
        };
        (0..(segment.size / (2 * half as u64)).min(MAX_ENTRIES)).map_while(entry).collect()
    }

    /// Programs are shared objects too nowadays; a flag tells them.
    fn is_program(&self, file: &File) -> bool {
        self.dynamic(file).iter().any(|(tag, value)| *tag == FLAGS_1 && value & PIE != 0)
    }
}

/// A number of this size at a place; none when the bytes end before.
pub fn number_at(bytes: &[u8], at: usize, size: usize, little: bool) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(size)?)?;
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Some(if little { part.iter().rev().fold(0, add) } else { part.iter().fold(0, add) })
}
