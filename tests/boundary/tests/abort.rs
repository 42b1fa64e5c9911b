//! A plugin that is built with `panic = "abort"` would take its host with it, so it is not built.
#![allow(missing_docs)]

use std::path::Path;
use std::process::Command;

#[test]
fn a_profile_that_aborts_on_panic_is_refused_by_the_compiler() {
    // The directory that this test was built in: the libraries are there already.
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .args(["rustc", "--offline", "--quiet", "-p", "fmail-example-rust", "--lib", "--target-dir"])
        .arg(target)
        .args(["--", "-Cpanic=abort"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("must not be built with panic = \"abort\""), "{said}");
}
