//! Plugins that were built at another time, or by another compiler.

use std::path::Path;
use std::process::Command;

use futures::StreamExt;
use futures::executor::block_on;

use crate::kit::{Hostile, build, call, close, echo, root, says};
use crate::upward::upward;

/// The source and the header of the day when 1.0 was made.
#[test]
fn a_plugin_of_abi_1_0_loads_and_works() {
    let frozen = root().join("tests/plugins/frozen/draft");
    let library = std::fs::read(build(&frozen.join("frozen.c"), &frozen)).unwrap();
    let hostile = Hostile::file(&library, "frozen");
    let instance = hostile.start_with(upward()).unwrap();
    assert_eq!((instance.manifest().version.as_str(), instance.manifest().max_message_bytes), ("1.0", Some(65536)));
    assert_eq!(echo(&instance, "grüße").unwrap(), "grüße");
    assert_eq!(call(&instance, "ask", "x").unwrap(), "projects x");
    says(&call(&instance, "other", "").unwrap_err(), &["the plugin `frozen`, `other`"]);
    let items: Vec<String> = block_on(async {
        let (_, items) = instance.stream("count", b"", b"").await.unwrap();
        items.map(|item| String::from_utf8(item.unwrap()).unwrap()).collect().await
    });
    assert_eq!(items, (1..=200).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(close(&instance).unwrap(), fmail_abi::Counters::default());
}

/// The example in Rust, built by a compiler that is not ours. That takes minutes, so only `cargo xtask test --full` does it.
#[test]
fn a_plugin_built_by_another_compiler_loads_and_works() {
    if std::env::var_os("FMAIL_TEST_FULL").is_none() {
        return;
    }
    let compiler = |command: &mut Command| {
        let output = command.arg("--version").output();
        output.ok().filter(|output| output.status.success()).map(|output| String::from_utf8(output.stdout).unwrap())
    };
    let Some(other) = compiler(Command::new("rustup").args(["run", "nightly", "rustc"])) else {
        eprintln!("there is no other toolchain here: `rustup toolchain install nightly` gives one");
        return;
    };
    let own = compiler(&mut Command::new("rustc")).expect("a compiler has built this test");
    assert_ne!(other, own, "the other toolchain is the same compiler");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-compiler");
    let output = Command::new("rustup")
        .args(["run", "nightly", "cargo", "build", "--offline", "-p", "fmail-example-rust", "--target-dir"])
        .arg(&target)
        .current_dir(root())
        .env_remove("RUSTC")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let hostile = Hostile::file(&std::fs::read(target.join("debug/libfmail_example_rust.so")).unwrap(), "other");
    let instance = hostile.start().unwrap();
    let build = serde_json::to_string(&instance.manifest().build).unwrap();
    assert!(build.contains("nightly"), "the manifest does not say what built it: {build}");
    assert_eq!(call(&instance, "append", "1 first").unwrap(), "");
    let error = call(&instance, "append", "1 again").unwrap_err();
    assert_eq!(error.kind(), fmail_api::ErrorKind::Conflict);
    assert_eq!(call(&instance, "append", "2 second").unwrap(), "");
    assert_eq!(call(&instance, "read", "0 10 1000").unwrap(), "1 first\n2 second\n");
    close(&instance).unwrap();
}
