//! `fmail mcp call`

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use fmail_api::{Error, ErrorKind, Result};
use fmail_host::Environment;
use serde_json::{Value, json};

use crate::agent_mail::{Address, Client, PatienceFlag, ServerFlags};
use crate::output::{Outcome, Output};
use crate::render::visible;

/// The largest arguments: more than any server takes.
const MOST: u64 = 32 * 1024 * 1024;

#[derive(Args)]
pub(crate) struct Call {
    /// The name of the tool; `fmail mcp tools` lists them
    tool: String,

    /// Its arguments, a JSON object; - reads it from standard input
    arguments: Option<String>,

    /// Print exactly the structured result, as one line of JSON; the arguments may stand behind it
    #[arg(long, value_name = "ARGUMENTS", num_args = 0..=1, default_missing_value = "")]
    json: Option<String>,

    /// Read the arguments from a file; - is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    patience: PatienceFlag,
}

impl Call {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let arguments = self.arguments()?;
        let address = Address::of(&self.server, environment, set)?;
        let mut client = Client::new(address, self.patience.time()?)?;
        let result = client.call(&self.tool, arguments)?;
        let mut output = Output::stdout();
        if self.json.is_some() {
            output.json(structured(&result).as_ref().unwrap_or(&result["content"]))?;
        } else {
            let text = shown(&result);
            output.line(if output.is_terminal() { visible(&text) } else { text }.trim_end())?;
        }
        output.flush()
    }

    /// The arguments, from the one place where they are given.
    fn arguments(&self) -> Result<Value> {
        let behind = self.json.as_deref().filter(|text| !text.is_empty());
        let given = [self.arguments.as_deref(), behind].into_iter().flatten().collect::<Vec<_>>();
        let text = match (&given[..], &self.file) {
            ([], None) => return Ok(json!({})),
            ([], Some(file)) if file.as_os_str() == "-" => stdin()?,
            ([], Some(file)) => of_file(file)?,
            (["-"], None) => stdin()?,
            ([text], None) => text.to_string(),
            _ => {
                return Err(Error::invalid("the arguments are given twice").help("give them once, or with --file"));
            }
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| {
            Error::invalid(format!("the arguments are not JSON: {error}"))
                .help("write the tool first: fmail mcp call TOOL --json '{\"key\": \"value\"}'")
        })?;
        match value {
            Value::Object(_) => Ok(value),
            other => Err(Error::invalid(format!("the arguments are not a JSON object, but {}", kind(&other)))
                .help("fmail mcp call TOOL --json '{\"key\": \"value\"}'")),
        }
    }
}

fn of_file(path: &Path) -> Result<String> {
    let doing = format!("cannot read the arguments in {}", path.display());
    let file = File::open(path).map_err(|error| Error::io(&doing, &error))?;
    contents(file, &doing)
}

fn stdin() -> Result<String> {
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Err(Error::invalid("the arguments are to come from standard input, which is a terminal")
            .help("pipe them in: echo '{}' | fmail mcp call TOOL --json -"));
    }
    contents(stdin, "cannot read the arguments on standard input")
}

fn contents(source: impl Read, doing: &str) -> Result<String> {
    let mut text = String::new();
    source.take(MOST + 1).read_to_string(&mut text).map_err(|error| Error::io(doing, &error))?;
    if text.len() as u64 > MOST {
        return Err(Error::new(ErrorKind::TooLarge, format!("the arguments have more than {MOST} bytes")));
    }
    Ok(text)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The structured result: what the server gives as such, or the JSON that its one text is.
fn structured(result: &Value) -> Option<Value> {
    match &result["structuredContent"] {
        Value::Null => match result["content"].as_array().map(Vec::as_slice) {
            Some([only]) => serde_json::from_str(only["text"].as_str()?).ok(),
            _ => None,
        },
        structured => Some(structured.clone()),
    }
}

/// The result for people: its structure on lines, or its texts.
fn shown(result: &Value) -> String {
    if let Some(structured) = structured(result) {
        return match &structured {
            Value::String(text) => text.clone(),
            other => format!("{other:#}"),
        };
    }
    let texts: Vec<String> = result["content"].as_array().into_iter().flatten().map(part).collect();
    texts.join("\n")
}

fn part(part: &Value) -> String {
    match part["text"].as_str() {
        Some(text) => text.to_string(),
        None => part.to_string(),
    }
}
