//! The examples of docs/gas-city.md do what the document says.

use std::fs;
use std::os::unix::fs::symlink;

use fmail_e2e::{Sandbox, gc_mail_binary, workspace};

#[test]
fn the_example_prints_what_the_document_says() {
    let text = fs::read_to_string(workspace().join("docs/gas-city.md")).expect("docs/gas-city.md");
    let blocks = text.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next());
    let script = blocks.filter(|block| block.contains("fmail-gc-mail send")).collect::<String>();
    let sandbox = Sandbox::new();
    symlink(gc_mail_binary(), sandbox.outside().join("bin/fmail-gc-mail")).expect("own directory");
    let printed = sandbox.bash("somebody", &script).ok().stdout;
    // What a line prints stands behind it.
    let said = script.lines().filter_map(|line| line.rsplit_once("    # ").or(line.rsplit_once(" # ")));
    let said: Vec<&str> = said.map(|(_, said)| said.trim()).filter(|said| *said != "nothing").collect();
    assert_eq!(said.len(), 4, "{script}");
    assert_eq!(printed.lines().collect::<Vec<_>>(), said, "{printed}");
}

/// The table of operations is the one that the program prints.
#[test]
fn every_operation_is_in_the_document() {
    let text = fs::read_to_string(workspace().join("docs/gas-city.md")).expect("docs/gas-city.md");
    let help = Sandbox::new().command(gc_mail_binary()).arg("--help").ok().stdout;
    let operations: Vec<&str> =
        help.lines().filter(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(operations.len(), 14, "{help}");
    for operation in operations {
        let rows = text.lines().filter(|line| line.starts_with("| "));
        assert!(rows.into_iter().any(|row| row.contains(&format!("`{operation}`"))), "{operation}");
    }
}
