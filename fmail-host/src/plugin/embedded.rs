//! The manifest of a library, read from its file. Loading a library runs its constructors, and asking what a plugin would
//! take should not: so the one symbol is followed to the text that it points to, as the loader would.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::elf::{Header, Segment, number_at};

/// The symbol that every plugin exports, and where in it the pointer to the manifest stands: behind the magic number, the
/// two versions, the size and a reserved field.
const SYMBOL: &[u8] = b"fmail_plugin_v1\0";
const MANIFEST: u64 = 24;

const LOAD: u32 = 1;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const RELOCATIONS: u64 = 7;
const RELOCATIONS_SIZE: u64 = 8;
const SYMBOL_SIZE: u64 = 24;
const RELOCATION_SIZE: u64 = 24;

/// No table and no manifest that is read here has a reason to be larger; a forged size must not cost memory.
const MAX_TABLE: u64 = 32 * 1024 * 1024;
const MAX_MANIFEST: usize = 1_000_000;

/// The text of the manifest; none when the file is not built as expected.
pub fn manifest(file: &File) -> Option<String> {
    let header = Header::read(file).filter(|header| header.wide)?;
    let library = Library {
        file,
        little: header.little,
        loaded: header.segments(file).into_iter().filter(|segment| segment.kind == LOAD).collect(),
        dynamic: header.dynamic(file),
    };
    let pointer = library.symbol()?.checked_add(MANIFEST)?;
    library.text(library.pointed(pointer)?)
}

struct Library<'a> {
    file: &'a File,
    little: bool,
    loaded: Vec<Segment>,
    dynamic: Vec<(u64, u64)>,
}

impl Library<'_> {
    fn entry(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().find(|(known, _)| *known == tag).map(|(_, value)| *value)
    }

    /// Where in the file an address is loaded from, and how many bytes of its segment follow.
    fn place(&self, address: u64) -> Option<(u64, u64)> {
        self.loaded.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address).filter(|inside| *inside < segment.size)?;
            Some((segment.offset.checked_add(inside)?, segment.size - inside))
        })
    }

    /// Bytes at an address, as many as there are, but not more than this.
    fn bytes(&self, address: u64, most: u64) -> Option<Vec<u8>> {
        let (offset, left) = self.place(address)?;
        let mut bytes = vec![0; left.min(most).min(MAX_TABLE) as usize];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    fn number(&self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        number_at(bytes, at, size, self.little)
    }

    /// The address of the plugin's symbol. The table of symbols has no length of its own; that of their names stands behind
    /// it, and what lies between the two and is no symbol has no such name.
    fn symbol(&self) -> Option<u64> {
        let (symbols, strings) = (self.entry(SYMBOLS)?, self.entry(STRINGS)?);
        let names = self.bytes(strings, MAX_TABLE)?;
        let table = self.bytes(symbols, strings.checked_sub(symbols).unwrap_or(MAX_TABLE))?;
        table.chunks_exact(SYMBOL_SIZE as usize).find_map(|symbol| {
            let name = self.number(symbol, 0, 4)? as usize;
            let (section, value) = (self.number(symbol, 6, 2)?, self.number(symbol, 8, 8)?);
            let ours = section != 0 && names.get(name..)?.starts_with(SYMBOL);
            ours.then_some(value)
        })
    }

    /// The address that the pointer at this address will hold: what its relocation adds, or what stands there already.
    fn pointed(&self, pointer: u64) -> Option<u64> {
        if let (Some(table), Some(size)) = (self.entry(RELOCATIONS), self.entry(RELOCATIONS_SIZE)) {
            let table = self.bytes(table, size)?;
            let found = table.chunks_exact(RELOCATION_SIZE as usize).find_map(|relocation| {
                let (at, info) = (self.number(relocation, 0, 8)?, self.number(relocation, 8, 8)?);
                let addend = self.number(relocation, 16, 8)?;
                (at == pointer).then_some((info >> 32, addend))
            });
            match found {
                Some((0, addend)) => return Some(addend),
                // Relative to another symbol, which another library could replace.
                Some(_) => return None,
                None => {}
            }
        }
        self.number(&self.bytes(pointer, 8)?, 0, 8)
    }

    fn text(&self, address: u64) -> Option<String> {
        let bytes = self.bytes(address, MAX_MANIFEST as u64)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }
}
