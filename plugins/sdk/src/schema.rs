//! Puts the SDK's own key into the schema of a plugin's configuration, while the manifest is made by the compiler.

/// The key of the SDK, as a property of the schema.
const RUNTIME: &str = concat!(
    "\"runtime\":{\"type\":\"object\",\"description\":\"the threads of the plugin's library\",\"properties\":{",
    "\"threads\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":64,",
    "\"description\":\"how many threads it has; the first instance of the library decides\"}}}"
);

/// Where the key goes, and what surrounds it there.
pub(crate) struct Splice {
    /// The schema up to here stands before it.
    pub(crate) at: usize,
    pub(crate) before: &'static str,
    pub(crate) after: &'static str,
}

impl Splice {
    pub(crate) const fn key(&self) -> &'static str {
        RUNTIME
    }

    /// Finds the place in a JSON object: in its `properties`, which are added where there are none.
    pub(crate) const fn find(schema: &str) -> Splice {
        let text = schema.as_bytes();
        let start = skip_space(text, 0);
        assert!(start < text.len() && text[start] == b'{', "config_schema is a JSON object");
        let mut at = start + 1;
        let mut depth = 1;
        while at < text.len() && depth > 0 {
            match text[at] {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let end = string_end(text, at);
                    let colon = skip_space(text, end);
                    if depth == 1 && colon < text.len() && text[colon] == b':' && is(text, at, end, b"\"properties\"") {
                        let open = skip_space(text, colon + 1);
                        assert!(open < text.len() && text[open] == b'{', "`properties` of config_schema is an object");
                        return Splice { at: open + 1, before: "", after: comma(text, open + 1) };
                    }
                    at = end - 1;
                }
                _ => {}
            }
            at += 1;
        }
        assert!(depth == 0, "config_schema is a JSON object");
        let after = if comma(text, start + 1).is_empty() { "}" } else { "}," };
        Splice { at: start + 1, before: "\"properties\":{", after }
    }
}

/// A comma, unless the object ends here.
const fn comma(text: &[u8], at: usize) -> &'static str {
    let next = skip_space(text, at);
    if next < text.len() && text[next] == b'}' { "" } else { "," }
}

const fn skip_space(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at].is_ascii_whitespace() {
        at += 1;
    }
    at
}

/// Behind the string that begins here.
const fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    assert!(at < text.len(), "a string of config_schema has no end");
    at + 1
}

const fn is(text: &[u8], start: usize, end: usize, word: &[u8]) -> bool {
    if end - start != word.len() {
        return false;
    }
    let mut at = 0;
    while at < word.len() && text[start + at] == word[at] {
        at += 1;
    }
    at == word.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_among_the_properties_wherever_they_stand() {
        for schema in [
            "{}",
            " { } ",
            r#"{"type":"object"}"#,
            r#"{"properties":{}}"#,
            r#"{"type":"object","properties": { "a" : {"type":"string"} },"required":["a"]}"#,
            r#"{"description":"the \"properties\": {","properties":{"properties":{"type":"object","properties":{}}}}"#,
            "{\n  \"required\": [\"properties\"],\n  \"properties\": {\n  }\n}\n",
        ] {
            let splice = Splice::find(schema);
            let (head, tail) = schema.split_at(splice.at);
            let text = format!("{head}{}{}{}{tail}", splice.before, splice.key(), splice.after);
            let mut spliced: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let properties = spliced["properties"].as_object_mut().unwrap();
            assert_eq!(properties.shift_remove("runtime").unwrap()["properties"]["threads"]["maximum"], 64);
            if properties.is_empty() && !schema.contains("\"properties\":") {
                spliced.as_object_mut().unwrap().shift_remove("properties");
            }
            assert_eq!(spliced, serde_json::from_str::<serde_json::Value>(schema).unwrap());
        }
    }
}
