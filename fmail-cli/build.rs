//! Links `fmail` so that it starts quickly: it runs for two milliseconds.
//!
//! At a fixed address, as other programs are without `-pie`: otherwise the loader writes 7,600 addresses into the program's
//! pages at every start, which takes a twentieth of it. The libraries, the heap and the stack are where the kernel puts them.
//!
//! With the unwinder inside: loading `libgcc_s.so.1` takes a tenth of a millisecond. Rust asks the linker for
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
    println!("cargo::rustc-link-arg-bin=fmail=-no-pie");
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
