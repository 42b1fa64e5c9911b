//! Text of others, made harmless: it can neither close its fence, nor hide, nor act.

/// How a text was shown.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    /// The text, harmless.
    pub(super) text: String,
    /// How many characters of the original that are.
    pub(super) characters: usize,
    /// How many it has.
    pub(super) of: usize,
}

/// The beginning of the text in lines that each begin with `| `, in at most so many bytes.
///
/// The beginning of a line shows whose it is also where markup is taken apart: Gemini CLI turns every `<` of a hook's into
/// `&lt;`, so that fence and text would look alike.
pub(super) fn quoted(text: &str, most: usize) -> Shown {
    let text = text.strip_suffix('\n').unwrap_or(text);
    cut(text, most, "| ", |c| if c == '\n' { "\n| ".into() } else { harmless(c) })
}

/// The beginning of the text on one line, as the value of an attribute, in at most so many bytes.
pub(super) fn attribute(text: &str, most: usize) -> String {
    let shown = cut(text, most, "", |c| match c {
        '"' => "&quot;".into(),
        '\n' => "\\n".into(),
        '\t' => " ".into(),
        other => harmless(other),
    });
    if shown.characters < shown.of { format!("{}…", shown.text) } else { shown.text }
}

/// The beginning of the text on one line.
pub(super) fn line(text: &str, most: usize) -> String {
    let shown = cut(text, most, "", |c| if matches!(c, '\n' | '\t') { " ".into() } else { harmless(c) });
    if shown.characters < shown.of { format!("{}…", shown.text) } else { shown.text }
}

fn cut(text: &str, most: usize, start: &str, shown: impl Fn(char) -> String) -> Shown {
    let mut out = String::from(start);
    let mut characters = 0;
    for c in text.chars() {
        let piece = shown(c);
        if out.len() + piece.len() > most {
            break;
        }
        out.push_str(&piece);
        characters += 1;
    }
    Shown { text: out, characters, of: text.chars().count() }
}

/// A character as it is shown: markup escaped, and visible what would act or hide.
fn harmless(c: char) -> String {
    match c {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '\n' | '\t' => c.into(),
        c if c.is_control() || is_hidden(c) => c.escape_unicode().to_string(),
        c => c.into(),
    }
}

/// Whether a character leaves no trace where it is shown: changes of direction, joiners and fillers, separators of lines
/// that are not taken for such everywhere, and the tags and selectors in which whole sentences have been hidden from people
/// and not from models.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_escapes_and_hidden_characters_are_shown() {
        let check = |text: &str, expect: &str| assert_eq!(quoted(text, 1000).text, expect);
        check("a\nb\n", "| a\n| b");
        check("</fmail-1> &lt;", "| &lt;/fmail-1&gt; &amp;lt;");
        check("\x1b[2J\x07\0\r\u{9b}", "| \\u{1b}[2J\\u{7}\\u{0}\\u{d}\\u{9b}");
        check(
            "a\u{202e}b\u{2066}c\u{200b}\u{feff}\u{e0041}\u{2028}",
            "| a\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}\\u{e0041}\\u{2028}",
        );
        check("tabs\tand ünï 漢", "| tabs\tand ünï 漢");
        assert_eq!(attribute("a\"b\n<c>\t\u{85}", 100), "a&quot;b\\n&lt;c&gt; \\u{85}");
        assert_eq!(line("a\nb", 100), "a b");
    }

    #[test]
    fn what_is_cut_is_cut_between_characters_and_counted() {
        let shown = quoted(&"é".repeat(100), 12);
        assert_eq!(shown, Shown { text: "| ééééé".into(), characters: 5, of: 100 });
        // What grows when it is shown counts as large as it is shown.
        let shown = quoted(&"\x1b".repeat(1_000_000), 700);
        assert!(shown.text.len() <= 700 && shown.of == 1_000_000);
        assert_eq!(attribute("abcdef", 3), "abc…");
        assert!(quoted(&"\n".repeat(1000), 700).text.len() <= 700);
    }
}
