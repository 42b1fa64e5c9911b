//! The words of a text, exactly as SQLite's `unicode61` tokenizer finds them with its default options.
//!
//! A word is a run of letters, digits and private-use characters; everything else separates. Capitals become small
//! letters, and Latin letters lose one mark (`é` and `e` are the same, `ế` is not). A combining mark within a word
//! is left out. There is no stemming, and text without spaces between its words (Chinese, Japanese) is one long word:
//! there a prefix search helps.

use super::tables::{Effect, RUNS};

/// What a character means for words.
enum Meaning {
    /// Part of a word, in the form that words are compared in.
    Letter(char),
    /// Left out within a word, a separator elsewhere.
    Mark,
    /// Ends a word.
    Separator,
}

/// Calls `found` with each word of the text, in order. `word` is room to build them in, so that a long text costs no
/// allocation for each word.
pub(super) fn for_each_word(text: &str, word: &mut String, mut found: impl FnMut(&str)) {
    word.clear();
    let mut rest = text;
    while !rest.is_empty() {
        rest = append_ascii(rest, word);
        let mut characters = rest.chars();
        match characters.next().map(meaning) {
            Some(Meaning::Letter(letter)) => word.push(letter),
            Some(Meaning::Separator) if !word.is_empty() => {
                found(word);
                word.clear();
            }
            Some(Meaning::Mark | Meaning::Separator) | None => {}
        }
        rest = characters.as_str();
    }
    if !word.is_empty() {
        found(word);
    }
}

/// Appends the letters and digits of ASCII that the text begins with, all at once: most text is made of them.
fn append_ascii<'t>(text: &'t str, word: &mut String) -> &'t str {
    let length = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let start = word.len();
    word.push_str(&text[..length]);
    word[start..].make_ascii_lowercase();
    &text[length..]
}

/// What a character means that is no letter or digit of ASCII.
fn meaning(character: char) -> Meaning {
    if character.is_ascii() {
        return Meaning::Separator;
    }
    let code = u32::from(character);
    let block = (code as usize / BLOCK).min(BLOCKS - 1);
    let run = RUNS[usize::from(STARTS[block])..].iter().find(|run| code <= run.last).filter(|run| run.first <= code);
    let Some(run) = run else { return Meaning::Letter(character) };
    let folded = match run.effect {
        Effect::End => return Meaning::Separator,
        Effect::Mark => return Meaning::Mark,
        Effect::One { step, to } if (code - run.first).is_multiple_of(step) => to,
        Effect::Shift { step, to } if (code - run.first).is_multiple_of(step) => to + (code - run.first),
        Effect::One { .. } | Effect::Shift { .. } => code,
    };
    Meaning::Letter(char::from_u32(folded).unwrap_or(character))
}

/// Characters in a block of [`STARTS`].
const BLOCK: usize = 256;

/// Up to the last block that has many runs; those beyond it are searched from there.
const BLOCKS: usize = 0x2_0000 / BLOCK;

/// For each block of characters, the first run that may have some of them: a character is found in a few steps.
static STARTS: [u16; BLOCKS] = {
    let mut starts = [0; BLOCKS];
    let (mut block, mut run) = (0, 0);
    while block < BLOCKS {
        while run < RUNS.len() - 1 && (RUNS[run].last as usize) < block * BLOCK {
            run += 1;
        }
        starts[block] = run as u16;
        block += 1;
    }
    starts
};

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, &mut String::new(), |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(
            words("Fix build-bot's parse_error, v1.5!"),
            ["fix", "build", "bot", "s", "parse", "error", "v1", "5"]
        );
        assert_eq!(words(" \t\n--- "), [""; 0]);
        assert_eq!(words("日本語 テキスト"), ["日本語", "テキスト"]);
    }

    #[test]
    fn case_and_one_mark_make_no_difference() {
        assert_eq!(
            words("É Ångström ΣΊΓΜΑ Ёлка STRASSE Straße"),
            ["e", "angstrom", "σίγμα", "ёлка", "strasse", "straße"]
        );
        assert_eq!(words("e\u{301}te\u{301} \u{301}x"), ["ete", "x"]);
        assert_eq!(words("ế"), ["ế"]);
    }

    #[test]
    fn the_table_is_in_order_and_without_overlap() {
        assert!(RUNS.iter().all(|run| run.first <= run.last));
        assert!(RUNS.windows(2).all(|pair| pair[0].last < pair[1].first));
    }
}
