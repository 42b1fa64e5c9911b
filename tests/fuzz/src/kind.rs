//! The ways in which a line can be broken.

use crate::fields::Fields;
use crate::{Dice, bytes, corpus, values};

/// A way to change a line. Most break it; some leave it valid but strange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The end is missing.
    Truncated,
    /// Bits are wrong.
    Flipped,
    /// The beginning of one line, the end of another.
    Spliced,
    /// A part stands there twice, or not at all.
    Stuttering,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// Control characters.
    Controls,
    /// Ends of lines where none belong, or other ones.
    Ends,
    /// Bytes that were never a line.
    Noise,
    /// A field has another value, perhaps of another type.
    Value,
    /// A number beyond every type.
    Number,
    /// A value inside so many others that a reader may run out of stack.
    Deep,
    /// A field stands there twice.
    Repeated,
    /// A field is missing.
    Missing,
    /// A field has another name.
    Renamed,
    /// Fields of another line.
    Borrowed,
    /// The fields in another order: the one change that must not matter.
    Shuffled,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 16] = [
        Kind::Truncated,
        Kind::Flipped,
        Kind::Spliced,
        Kind::Stuttering,
        Kind::NotUtf8,
        Kind::Controls,
        Kind::Ends,
        Kind::Noise,
        Kind::Value,
        Kind::Number,
        Kind::Deep,
        Kind::Repeated,
        Kind::Missing,
        Kind::Renamed,
        Kind::Borrowed,
        Kind::Shuffled,
    ];

    /// Changes a line in this way. What is no object has no fields to change and stays as it is.
    pub fn apply(self, dice: &mut Dice, line: &mut Vec<u8>) {
        match self {
            Kind::Truncated => bytes::truncate(dice, line),
            Kind::Flipped => bytes::flip(dice, line),
            Kind::Spliced => bytes::splice(dice, line),
            Kind::Stuttering => bytes::stutter(dice, line),
            Kind::NotUtf8 => bytes::not_utf8(dice, line),
            Kind::Controls => bytes::controls(dice, line),
            Kind::Ends => bytes::ends(dice, line),
            Kind::Noise => bytes::noise(dice, line),
            _ => {
                if let Some(mut fields) = Fields::of(line) {
                    self.apply_to_fields(dice, &mut fields);
                    *line = fields.line();
                }
            }
        }
    }

    fn apply_to_fields(self, dice: &mut Dice, fields: &mut Fields) {
        match self {
            Kind::Value => {
                let value = values::value(dice);
                fields.replace(dice, value);
            }
            Kind::Number => {
                let number = values::number(dice);
                fields.replace(dice, number);
            }
            Kind::Deep => {
                let depth = [100, 130, 1_000, 20_000][dice.roll(4)];
                let value = values::nested(dice, depth);
                fields.replace(dice, value);
            }
            Kind::Repeated => fields.repeat(dice),
            Kind::Missing => fields.remove(dice),
            Kind::Renamed => fields.rename(dice),
            Kind::Borrowed => fields.borrow(dice),
            _ => fields.shuffle(dice),
        }
    }
}

/// One of these lines, changed in up to four ways. Now and then it is still valid.
pub fn mutated(dice: &mut Dice, lines: &[&str]) -> Vec<u8> {
    let mut line = dice.pick(lines).as_bytes().to_vec();
    for _ in 0..=dice.roll(4) {
        dice.pick(&Kind::ALL).apply(dice, &mut line);
    }
    line
}

/// A request that was changed in this way and that `is_valid` does not take for a valid one; it has no end of a line inside.
pub fn broken(dice: &mut Dice, kind: Kind, is_valid: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let requests = corpus::requests();
    loop {
        let mut line = dice.pick(&requests).as_bytes().to_vec();
        kind.apply(dice, &mut line);
        // Most changes of a body leave a good request. Another change, and it is one no more.
        while is_valid(&line) {
            dice.pick(&Kind::ALL).apply(dice, &mut line);
        }
        if !line.contains(&b'\n') {
            return line;
        }
    }
}

/// Every valid request, cut off at every place. None of them is a request: an object ends with its last byte.
pub fn truncations() -> impl Iterator<Item = &'static [u8]> {
    corpus::requests().into_iter().flat_map(|line| {
        let line = line.trim_end().as_bytes();
        (0..line.len()).map(move |length| &line[..length])
    })
}
