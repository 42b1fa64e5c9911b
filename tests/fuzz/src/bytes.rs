//! Changes that know nothing of JSON.

use crate::{Dice, corpus};

/// Bytes that stand nowhere in UTF-8, and sequences that are forbidden there: overlong, a surrogate, beyond the last
/// character, cut off.
const NOT_UTF8: &[&[u8]] = &[
    b"\xff",
    b"\xfe",
    b"\x80",
    b"\xc0\xaf",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
];

/// What may stand in a text only by another spelling, or nowhere.
const CONTROLS: &[&[u8]] = &[b"\0", b"\x01", b"\x08", b"\x0b", b"\x0c", b"\x1b", b"\x7f", b"\xc2\x85", b"\xef\xbb\xbf"];

/// What some take for the end of a line.
const ENDS: &[&[u8]] = &[b"\r", b"\r\n", b"\n", b"\n\n", b"\r\r\n", b"\xe2\x80\xa8"];

/// The characters that JSON is made of.
const STRUCTURE: &[u8] = b"{}[]\":,\\0123456789-+.eE truefalsn";

/// Cuts the line off.
pub fn truncate(dice: &mut Dice, line: &mut Vec<u8>) {
    line.truncate(dice.roll(line.len()));
}

/// Changes single bits.
pub fn flip(dice: &mut Dice, line: &mut [u8]) {
    for _ in 0..=dice.roll(4) {
        let place = dice.roll(line.len());
        if let Some(byte) = line.get_mut(place) {
            *byte ^= 1 << dice.roll(8);
        }
    }
}

/// Puts in bytes that are not UTF-8.
pub fn not_utf8(dice: &mut Dice, line: &mut Vec<u8>) {
    insert(dice, line, NOT_UTF8);
}

/// Puts in control characters, NUL among them.
pub fn controls(dice: &mut Dice, line: &mut Vec<u8>) {
    insert(dice, line, CONTROLS);
}

/// Puts in ends of lines.
pub fn ends(dice: &mut Dice, line: &mut Vec<u8>) {
    if dice.roll(2) == 0 {
        line.extend_from_slice(dice.pick(ENDS));
    } else {
        insert(dice, line, ENDS);
    }
}

fn insert(dice: &mut Dice, line: &mut Vec<u8>, what: &[&[u8]]) {
    for _ in 0..=dice.roll(3) {
        let place = dice.roll(line.len() + 1);
        line.splice(place..place, dice.pick(what).iter().copied());
    }
}

/// Joins the beginning of the line and the end of another one.
pub fn splice(dice: &mut Dice, line: &mut Vec<u8>) {
    let lines = [corpus::requests(), corpus::answers()].concat();
    let other = dice.pick(&lines).as_bytes();
    line.truncate(dice.roll(line.len() + 1));
    line.extend_from_slice(&other[dice.roll(other.len())..]);
}

/// Repeats or drops a part of the line.
pub fn stutter(dice: &mut Dice, line: &mut Vec<u8>) {
    let (one, other) = (dice.roll(line.len() + 1), dice.roll(line.len() + 1));
    let part = line[one.min(other)..one.max(other)].to_vec();
    if dice.roll(3) == 0 {
        line.drain(one.min(other)..one.max(other));
    } else {
        line.splice(one..one, part);
    }
}

/// Something that was never a request.
pub fn noise(dice: &mut Dice, line: &mut Vec<u8>) {
    let length = dice.roll(200);
    let only_structure = dice.roll(2) == 0;
    *line = (0..length).map(|_| if only_structure { dice.pick(STRUCTURE) } else { dice.number() as u8 }).collect();
}
