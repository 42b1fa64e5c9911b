//! Links `fmail` so that it starts quickly: it runs for two milliseconds.
//!
//! At a fixed address, as other programs are without `-pie`: otherwise the loader writes 7,600 addresses into the program's
//! pages at every start, which takes a twentieth of it. The libraries, the heap and the stack are where the kernel puts them.
//!
//! With the unwinder inside: loading `libgcc_s.so.1` takes a tenth of a millisecond. Rust asks the linker for
//! `-lgcc_s`; a linker script of that name, found first, sends it to the static form, which belongs to every gcc. The C
//! library stays shared, since a static one cannot load plugins.
//!
//! With the functions that the commands of every day run side by side, as `startup.ld` lists them (`cargo xtask order`
//! writes it). The kernel maps a program in pieces of 64 kB when they are first touched, at 3 µs each and one more when the
//! program ends; in the order of the crates, a `send` touches 75 pieces of 8 MB. Names that are not
//! there any more, as with another compiler, do no harm: what they stood for lies where it would have lain.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The functions that are to lie side by side.
const ORDER: &str = "startup.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "linux")
        || !is("CARGO_CFG_TARGET_ENV", "gnu")
        || env::var("HOST") != env::var("TARGET")
    {
        return;
    }
    println!("cargo::rustc-link-arg-bin=fmail=-no-pie");
    let (Ok(out), Ok(here)) = (env::var("OUT_DIR"), env::var("CARGO_MANIFEST_DIR")) else { return };
    let out = Path::new(&out);
    // The compiler repeats the bare name when it has no such file.
    let asked = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let path = asked.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_string()).unwrap_or_default();
    if Path::new(&path).is_absolute() && fs::write(out.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n").is_ok() {
        println!("cargo::rustc-link-search=native={}", out.display());
    }
    let order = Path::new(&here).join(ORDER);
    if is("PROFILE", "release") && orders(&order, out) {
        println!("cargo::rustc-link-arg-bin=fmail={}", ordering(&order));
    }
}

/// What the linker is told.
fn ordering(order: &Path) -> String {
    format!("-Wl,-T,{}", order.display())
}

/// Whether the linker in use can put functions in an order: lld can, which is Rust's own on most machines; others refuse
/// to be told. So a program of one line is linked with it.
fn orders(order: &Path, out: &Path) -> bool {
    let (Ok(compiler), Ok(flags)) = (env::var("RUSTC"), env::var("CARGO_ENCODED_RUSTFLAGS")) else { return false };
    let source = out.join("ordered.rs");
    let mut trial = Command::new(compiler);
    trial.args(flags.split('\x1f').filter(|flag| !flag.is_empty())).args(["--crate-name", "ordered"]).arg(&source);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        trial.arg(format!("-Clinker={linker}"));
    }
    trial.arg(format!("-Clink-arg={}", ordering(order))).arg("-o").arg(out.join("ordered"));
    fs::write(&source, "fn main() {}\n").is_ok() && trial.output().is_ok_and(|done| done.status.success())
}
