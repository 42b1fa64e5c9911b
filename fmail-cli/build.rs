//! Links the unwinder into the program instead of loading it with every start.
//!
//! `fmail` runs for two milliseconds, and loading `libgcc_s.so.1` takes a tenth of one. Rust asks the linker for
//! `-lgcc_s`; a linker script of that name, found first, sends it to the static form, which belongs to every gcc. The C
//! library stays shared, since a static one cannot load plugins.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "linux")
        || !is("CARGO_CFG_TARGET_ENV", "gnu")
        || env::var("HOST") != env::var("TARGET")
    {
        return;
    }
    let Ok(out) = env::var("OUT_DIR") else { return };
    let asked = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let path = asked.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_string()).unwrap_or_default();
    // The compiler repeats the bare name when it has no such file.
    if Path::new(&path).is_absolute()
        && fs::write(Path::new(&out).join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n").is_ok()
    {
        println!("cargo::rustc-link-search=native={out}");
    }
}
