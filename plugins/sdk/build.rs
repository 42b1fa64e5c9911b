//! Finds out what the manifest of a plugin says about its build.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version =
        Command::new(rustc).arg("--version").output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    // It stands inside of a JSON string.
    let version = version.unwrap_or_default().trim().replace(['"', '\\'], "");
    println!("cargo:rustc-env=FMAIL_PLUGIN_RUSTC={version}");
    println!("cargo:rustc-env=FMAIL_PLUGIN_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
