//! The structs and constants in Rust are those of the header, as a C compiler sees it.
//!
//! A C program prints the size of each struct, the place of each field and the value of each constant; the same lines are
//! made here from the Rust structs.
#![allow(missing_docs)]

use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_abi::layout::{ABI_MAJOR, ABI_MINOR, FmBytes, FmHost, FmPlugin, MAGIC};
use fmail_abi::{Level, status};

/// For each struct: the lines of the C program that print it, and the lines that it ought to print.
macro_rules! layout {
    ($source:ident, $expected:ident, $c:ident = $rust:ident { $($field:ident),* $(,)? }) => {
        let name = stringify!($c);
        writeln!($source, "printf(\"{name} %zu\\n\", sizeof({name}));").unwrap();
        writeln!($expected, "{name} {}", size_of::<$rust>()).unwrap();
        $(
            let field = stringify!($field);
            writeln!($source, "printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));").unwrap();
            writeln!($expected, "{name}.{field} {}", offset_of!($rust, $field)).unwrap();
        )*
    };
}

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/include")
}

fn compile(compiler: &str, arguments: &[&str], source: &Path, program: &Path) {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]).args(arguments);
    command.arg("-I").arg(header()).arg("-o").arg(program).arg(source);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn structs_and_constants_are_those_of_the_header() {
    let (mut source, mut expected) = (String::new(), String::new());
    layout!(source, expected, fm_bytes = FmBytes { ptr, len });
    layout!(
        source,
        expected,
        fm_host = FmHost { size, abi_minor, data, log_level, reserved, done, item, log, call, pull, cancel, extension }
    );
    layout!(
        source,
        expected,
        fm_plugin = FmPlugin {
            magic,
            abi_major,
            abi_minor,
            size,
            reserved,
            manifest,
            create,
            call,
            pull,
            cancel,
            destroy,
            done,
            item,
            extension,
        }
    );
    let constants: [(&str, i128); 19] = [
        ("FM_MAGIC", MAGIC.into()),
        ("FM_ABI_MAJOR", ABI_MAJOR.into()),
        ("FM_ABI_MINOR", ABI_MINOR.into()),
        ("FM_OK", status::OK.into()),
        ("FM_END", status::END.into()),
        ("FM_E_INVALID", status::INVALID.into()),
        ("FM_E_NOT_FOUND", status::NOT_FOUND.into()),
        ("FM_E_CONFLICT", status::CONFLICT.into()),
        ("FM_E_DENIED", status::DENIED.into()),
        ("FM_E_UNSUPPORTED", status::UNSUPPORTED.into()),
        ("FM_E_UNAVAILABLE", status::UNAVAILABLE.into()),
        ("FM_E_CANCELLED", status::CANCELLED.into()),
        ("FM_E_INTERNAL", status::INTERNAL.into()),
        ("FM_E_PANIC", status::PANIC.into()),
        ("FM_ERROR", Level::Error as i128),
        ("FM_WARN", Level::Warn as i128),
        ("FM_INFO", Level::Info as i128),
        ("FM_DEBUG", Level::Debug as i128),
        ("FM_TRACE", Level::Trace as i128),
    ];
    for (name, value) in constants {
        writeln!(source, "printf(\"{name} %lld\\n\", (long long)({name}));").unwrap();
        writeln!(expected, "{name} {value}").unwrap();
    }

    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
    let text = format!("#include <stdio.h>\n#include \"fmail_plugin.h\"\nint main(void) {{\n{source}return 0;\n}}\n");
    std::fs::write(&file, text).unwrap();
    compile("cc", &["-std=c99"], &file, &program);
    let output = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

/// Every field of the structs in the header has its line above: a field that only C has would make the struct larger only
/// when it is not padding.
#[test]
fn no_field_of_the_header_is_missing_in_rust() {
    let text = std::fs::read_to_string(header().join("fmail_plugin.h")).unwrap();
    let rust = include_str!("../src/layout.rs");
    for (c, rust_name) in [("fm_bytes", "FmBytes"), ("fm_host", "FmHost"), ("fm_plugin", "FmPlugin")] {
        let fields = c_fields(&text, c);
        let body = rust.split(&format!("pub struct {rust_name} {{")).nth(1).unwrap().split("\n}").next().unwrap();
        let ours: Vec<&str> =
            body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect();
        assert_eq!(fields, ours, "{c}");
    }
}

/// The names of a struct's fields: what stands before the `;`, or in `(*…)`.
fn c_fields<'a>(header: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("typedef struct {name} {{");
    let body = header.split(&start).nth(1).unwrap().split("\n}").next().unwrap();
    let code =
        body.split("/*").enumerate().map(|(at, part)| if at == 0 { part } else { part.split("*/").nth(1).unwrap() });
    code.flat_map(|part| part.split(';'))
        .map(str::trim)
        .filter(|declaration| !declaration.is_empty())
        .map(|declaration| match declaration.split("(*").nth(1) {
            Some(function) => function.split(')').next().unwrap(),
            None => declaration.rsplit([' ', '*']).next().unwrap(),
        })
        .collect()
}

#[test]
fn the_header_is_c99_and_cxx11() {
    let directory = tempfile::tempdir().unwrap();
    let text = "#include \"fmail_plugin.h\"\nint main(void) { return fm_is(fm_str(\"a\"), \"a\") ? 0 : 1; }\n";
    for (compiler, standard, name) in [("cc", "-std=c99", "a.c"), ("c++", "-std=c++11", "a.cc")] {
        let (file, program) = (directory.path().join(name), directory.path().join(format!("{name}.out")));
        std::fs::write(&file, text).unwrap();
        compile(compiler, &[standard], &file, &program);
        assert!(Command::new(&program).status().unwrap().success());
    }
}
