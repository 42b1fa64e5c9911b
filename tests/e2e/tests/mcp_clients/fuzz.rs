//! The tools, given all that Hypothesis thinks of.

use fmail_e2e::full;
use fmail_e2e::mcp::MailServer;
use libtest_mimic::Trial;
use serde_json::json;
use xtask::clients::{Interpreter, Set};

use crate::{program, trial};

pub fn trials() -> Vec<Trial> {
    vec![trial("fuzz::no_argument_breaks_a_tool_or_stores_what_was_refused", Set::Newest, |it| fuzz(&it))]
}

fn fuzz(interpreter: &Interpreter) {
    let seconds = number("FMAIL_TEST_FUZZ_SECONDS").unwrap_or(if full() { 300 } else { 20 });
    let seed = number("FMAIL_TEST_FUZZ_SEED").unwrap_or(1);
    println!("FMAIL_TEST_FUZZ_SEED={seed} FMAIL_TEST_FUZZ_SECONDS={seconds}");
    let server = MailServer::configured("profile = \"full\"");
    let argument = json!({
        "address": server.address, "project": server.sandbox.path(), "seconds": seconds, "seed": seed,
    });
    let program = program::python(&server.sandbox, interpreter, "fuzz.py");
    let lines = program::lines_within(program, &argument, seconds + 240);
    println!("{}", lines[0]);
    let tools = lines[0]["tools"].as_object().expect("what each tool did");
    let names = |end: &str| tools.keys().filter(|name| name.ends_with(end)).count();
    assert!(names(": done") >= 15 && names(": refused") >= 15, "not every tool was reached: {}", lines[0]);
    // What fmail itself finds is what the names of the files say.
    let mailboxes = server.sandbox.names(".fmail/dm");
    let found: usize = mailboxes.iter().map(|name| server.sandbox.log(name, &[&format!("@{name}")]).len()).sum();
    assert_eq!(lines[0]["messages"], found, "{}", lines[0]);
    server.daemon.stop();
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`; allowed is a whole number")))
}
