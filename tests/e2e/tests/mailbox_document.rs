//! The examples of docs/mailboxes.md do what the document says.

use std::fs;
use std::path::Path;

use fmail_e2e::{Output, Sandbox};

/// The shell examples, in their order.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mailboxes.md");
    let text = fs::read_to_string(path).expect("docs/mailboxes.md");
    text.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next()).map(String::from).collect()
}

#[test]
fn the_examples_run_and_print_what_the_document_says() {
    let sandbox = Sandbox::new();
    let outputs: Vec<Output> = documented().iter().map(|block| sandbox.bash("somebody", block).ok()).collect();
    let [life, receipt, claim] = &outputs[..] else { panic!("{} blocks", outputs.len()) };
    assert!(life.stdout.contains("1 unread message for @bob\n"), "{life}");
    assert!(life.stdout.contains("alice -> @bob [Merge]: may I merge the parser?"), "{life}");
    assert!(life.stdout.ends_with("0 total, 0 unread for @bob\n"), "{life}");
    let states: Vec<&str> = receipt.stdout.lines().filter_map(|line| line.split_whitespace().take(2).last()).collect();
    assert_eq!(states[states.len() - 2..], ["acknowledged", "unread"], "{receipt}");
    assert_eq!(claim.stdout.lines().count(), 2, "the id of the message, sent and acknowledged: {claim}");
    let alice = sandbox.agent("alice").args(["inbox"]).ok();
    assert!(alice.stdout.contains("bob -> @alice [Re: Merge]: yes, go ahead"), "{alice}");
}
