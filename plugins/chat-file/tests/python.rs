//! The parser beside the document's expression in another engine: Python's `re`, as a subprocess.
//!
//! Python takes U+001C to U+001F for white space, and Rust's engine, which the document's server uses, does not. So each
//! line is asked about twice: with the expression as it stands, and with `\s` less these four. The second must always
//! agree with us, and the first must agree with the second on every line that has none of the four.

use std::io::Write;
use std::process::{Command, Stdio};

use fmail_chat_file::ChatLine;
use serde_json::{Value, json};

const SCRIPT: &str = r#"
import json, re, sys
document = r"^\[([a-zA-Z0-9_-]+)-to-([a-zA-Z0-9_-]+)\](?:\s*@\s*\[([^\]]*)\])?\s*:\s*(.+)$"
def reader(space):
    pattern = re.compile(document.replace(r"\s", space))
    edges = re.compile("^" + space + "+|" + space + "+$")
    def read(line):
        found = pattern.match(line)
        if not found:
            return None
        sender, recipient, targets, message = found.groups()
        targets = [edges.sub("", target) for target in (targets or "").split(",")]
        return [sender, recipient, [target for target in targets if target], message]
    return read
plain, exact = reader(r"\s"), reader(r"[^\S\x1c-\x1f]")
for line in sys.stdin.buffer.read().split(b"\n")[:-1]:
    line = line.decode("utf-8", "replace")
    print(json.dumps([plain(line), exact(line)]))
"#;

/// What Python says about each line, with its own white space and with ours.
fn python(lines: &[Vec<u8>]) -> Vec<(Value, Value)> {
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("these tests need python3");
    let mut stdin = child.stdin.take().unwrap();
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    let writer = std::thread::spawn(move || stdin.write_all(&text).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let answers: Vec<(Value, Value)> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), lines.len());
    answers
}

fn ours(line: &[u8]) -> Value {
    ChatLine::parse(line).map_or(Value::Null, |line| json!([line.sender, line.recipient, line.broadcast, line.message]))
}

/// Compares all lines; how many are messages, and on how many Python's own white space makes a difference.
fn compare(lines: &[Vec<u8>]) -> (usize, usize) {
    let (mut messages, mut apart) = (0, 0);
    for (line, (plain, exact)) in lines.iter().zip(python(lines)) {
        let shown = String::from_utf8_lossy(line);
        assert_eq!(ours(line), exact, "{shown:?}");
        if plain != exact {
            assert!(line.iter().any(|byte| (0x1c..=0x1f).contains(byte)), "{shown:?}");
            apart += 1;
        }
        messages += usize::from(!exact.is_null());
    }
    (messages, apart)
}

/// A small generator with a fixed start, so that every run asks about the same lines; `FMAIL_TEST_SEED` gives others.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn of<'a>(&mut self, choices: &[&'a [u8]]) -> &'a [u8] {
        choices[self.below(choices.len())]
    }
}

const NAME: &[&[u8]] = &[b"a", b"B", b"9", b"_", b"-", b"--", b"to", b"-to", b"to-", b"-to-", b"coder", b"reviewer-2"];
const STRANGE: &[&[u8]] = &[b" ", b".", b"@", b"]", b"[", b":", "é".as_bytes(), "‐".as_bytes(), b"\xff", b"\0", b"TO"];
const SPACE: &[&[u8]] = &[
    b" ",
    b"  ",
    b"\t",
    b"\r",
    b"\x0b",
    b"\x0c",
    "\u{85}".as_bytes(),
    "\u{a0}".as_bytes(),
    "\u{1680}".as_bytes(),
    "\u{2003}".as_bytes(),
    "\u{2028}".as_bytes(),
    "\u{202f}".as_bytes(),
    "\u{205f}".as_bytes(),
    "\u{3000}".as_bytes(),
    // White space for Python only.
    b"\x1c",
    b"\x1d",
    b"\x1e",
    b"\x1f",
    // White space for nobody.
    "\u{200b}".as_bytes(),
    "\u{180e}".as_bytes(),
    "\u{feff}".as_bytes(),
];
const TEXT: &[&[u8]] = &[
    b"x",
    b"Please review",
    b" ",
    b"]",
    b"[",
    b":",
    b"@",
    b",",
    b"[a-to-b]: ",
    "— ü 漢 🦀".as_bytes(),
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\0",
    b"\x1f",
    b"\r",
];

struct Line(Vec<u8>);

impl Line {
    fn pieces(&mut self, random: &mut Random, choices: &[&[u8]], at_least: usize, at_most: usize) {
        for _ in 0..at_least + random.below(at_most - at_least + 1) {
            self.0.extend_from_slice(random.of(choices));
        }
    }

    /// What the expression wants here, nearly always.
    fn token(&mut self, random: &mut Random, token: &[u8]) {
        match random.below(60) {
            0 => {}
            1 => self.0.extend([token, token].concat()),
            2 => self.0.extend_from_slice(random.of(STRANGE)),
            _ => self.0.extend_from_slice(token),
        }
    }

    fn space(&mut self, random: &mut Random) {
        if random.chance(30) {
            self.pieces(random, SPACE, 1, 3);
        } else if random.chance(50) {
            self.0.push(b' ');
        }
    }

    fn name(&mut self, random: &mut Random) {
        self.pieces(random, NAME, usize::from(!random.0.is_multiple_of(16)), 4);
        if random.chance(2) {
            self.0.extend_from_slice(random.of(STRANGE));
        }
    }
}

fn generated(random: &mut Random) -> Vec<u8> {
    let mut line = Line(Vec::new());
    if random.chance(3) {
        line.space(random);
    }
    line.token(random, b"[");
    line.name(random);
    line.token(random, b"-to-");
    line.name(random);
    line.token(random, b"]");
    if random.chance(45) {
        line.space(random);
        line.token(random, b"@");
        line.space(random);
        line.token(random, b"[");
        for _ in 0..random.below(5) {
            line.space(random);
            line.pieces(random, NAME, 0, 2);
            if random.chance(10) {
                line.pieces(random, TEXT, 1, 2);
            }
            line.space(random);
            line.token(random, b",");
        }
        line.token(random, b"]");
    }
    line.space(random);
    line.token(random, b":");
    line.space(random);
    if random.chance(90) {
        line.pieces(random, TEXT, 0, 4);
    }
    line.space(random);
    line.0.retain(|byte| *byte != b'\n');
    line.0
}

#[test]
fn a_hundred_thousand_generated_lines_are_read_alike() {
    let seed = std::env::var("FMAIL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_217);
    println!("FMAIL_TEST_SEED={seed}");
    let mut random = Random(seed);
    let lines: Vec<Vec<u8>> = (0..100_000).map(|_| generated(&mut random)).collect();
    let (messages, apart) = compare(&lines);
    let nested = lines.iter().filter_map(ChatLine::parse).filter(|line| line.sender.contains("-to-")).count();
    let broadcast = lines.iter().filter_map(ChatLine::parse).filter(|line| !line.broadcast.is_empty()).count();
    println!("{messages} messages, {broadcast} with targets, {nested} with a further -to-; {apart} differ in Python");
    // The generator must hit both sides of every rule, or the comparison says little.
    assert!((30_000..=80_000).contains(&messages), "{messages}");
    assert!(nested > 3_000 && broadcast > 5_000 && apart > 100, "{nested} {broadcast} {apart}");
}

#[test]
fn every_character_is_white_space_to_both_or_to_neither() {
    // The last one that is white space is U+3000.
    let last = if std::env::var_os("FMAIL_TEST_FULL").is_some() { 0x10_ffff } else { 0x3fff };
    let characters = (0..=last).filter_map(char::from_u32).filter(|character| *character != '\n');
    let lines: Vec<Vec<u8>> = characters
        .flat_map(|c| {
            [format!("[a-to-b]{c}@{c}[{c}x{c}]{c}:{c}y{c}"), format!("[a-to-b]:{c}"), format!("[a{c}-to-b]: x")]
        })
        .map(String::into_bytes)
        .collect();
    let (_, apart) = compare(&lines);
    assert_eq!(apart, 4, "U+001C to U+001F, and nothing else");
}
