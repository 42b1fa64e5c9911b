//! JSON that is valid where it stands and that a reader may stumble over.

use crate::Dice;

/// Short values that sit on some border: of a type, of a number's range, of what is a name.
const BORDERS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1.0",
    "0.1e1",
    "1e999",
    "-1e-999",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "\"\"",
    "\" \"",
    "\"*\"",
    "\"@\"",
    "\"@a\"",
    "\"@@a\"",
    "\"A\"",
    "\"a b\"",
    "\"../x\"",
    "\"a/b\"",
    "\"-\"",
    "\"high\"",
    "\"HIGH\"",
    "\"\\u0000\"",
    "\"\\n\"",
    "\"\\u001b[2J\"",
    "\"\\u2028\\ufeff\\u202e\"",
    "\"\\ud83d\\ude00\"",
    "\"é\"",
    "\"20260110-153000-0001\"",
    "\"20260231-256199-99999\"",
    "\"99991231-235959-9999\"",
    "\"2026-01-10T15:00:00Z\"",
    "\"2026-01-10T15:00:00.000000001+23:59\"",
    "\"-009999-01-01T00:00:00Z\"",
    "\"9999-12-31T23:59:60Z\"",
    "\"0123456789abcdef:18446744073709551615\"",
    "[]",
    "[null]",
    "[\"a\",\"a\"]",
    "[\"@a\",\"t\",\"@b\"]",
    "[[[[]]]]",
    "{}",
    "{\"\":\"\"}",
    "{\"cmd\":\"send\",\"ok\":true,\"msg\":{}}",
    "{\"$serde_json::private::Number\":\"1\"}",
    "{\"$serde_json::private::Number\":\"x\"}",
    "{\"$serde_json::private::RawValue\":\"{}\"}",
];

/// A value of any kind; now and then a long or a deep one.
pub fn value(dice: &mut Dice) -> String {
    match dice.roll(12) {
        0 => number(dice),
        1 => text(dice),
        2 => {
            let depth = [1, 3, 30, 120][dice.roll(4)];
            nested(dice, depth)
        }
        _ => dice.pick(BORDERS).into(),
    }
}

/// A number with more digits than any type holds, or with an exponent that none reaches.
pub fn number(dice: &mut Dice) -> String {
    let digits: String = (0..=dice.roll(400)).map(|_| char::from(b'1' + dice.roll(9) as u8)).collect();
    match dice.roll(4) {
        0 => digits,
        1 => format!("-{digits}"),
        2 => format!("0.{digits}"),
        _ => format!("1e{}{digits}", ["", "-", "+"][dice.roll(3)]),
    }
}

/// A text of up to some thousand characters out of every part of Unicode, spelled in every way.
pub fn text(dice: &mut Dice) -> String {
    const PARTS: &[&str] =
        &["x", "a-0", "é", "漢", "😀", "\\\\", "\\\"", "\\/", "\\t", "\\u00e9", "\\ud834\\udd1e", "\u{7f}"];
    let count = [3, 60, 300, 4_000][dice.roll(4)];
    let middle: String = (0..dice.roll(count)).map(|_| dice.pick(PARTS)).collect();
    format!("\"{middle}\"")
}

/// Lists and objects inside each other.
pub fn nested(dice: &mut Dice, depth: usize) -> String {
    let is_list: Vec<bool> = (0..depth).map(|_| dice.roll(2) == 0).collect();
    let open: String = is_list.iter().map(|list| if *list { "[" } else { "{\"a\":" }).collect();
    let close: String = is_list.iter().rev().map(|list| if *list { "]" } else { "}" }).collect();
    format!("{open}1{close}")
}
