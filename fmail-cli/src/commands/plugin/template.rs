//! The projects that `fmail plugin new` writes. The examples of the repository are their sources, so that there is one of
//! each, and it is tested.

use super::new::{Kind, Lang};

/// A project for a kind and a language. In names and texts `example-c` and its like stand for the plugin's own name.
pub(super) struct Template {
    pub(super) kind: Kind,
    pub(super) lang: Lang,
    /// The plugin's name in the files.
    pub(super) named: &'static str,
    pub(super) files: &'static [File],
    /// What builds it; empty where nothing is to be built.
    pub(super) build: &'static str,
    /// What is built.
    pub(super) result: &'static str,
    /// What it is, in a sentence.
    pub(super) about: &'static str,
}

pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    pub(super) executable: bool,
}

const fn file(path: &'static str, text: &'static str) -> File {
    File { path, text, executable: false }
}

const fn program(path: &'static str, text: &'static str) -> File {
    File { path, text, executable: true }
}

const HEADER: &str = include_str!("../../../../plugins/sdk/include/fmail_plugin.h");
const CARGO: &str = include_str!("../../../../plugins/templates/Cargo.toml.in");
const CARGO_BUILD: &str = "cargo build --release";

macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../../../../plugins/", $path))
    };
}

/// Every project that is offered.
pub(super) static TEMPLATES: &[Template] = &[
    Template {
        kind: Kind::Store,
        lang: Lang::C,
        named: "example-c",
        files: &[
            file("store.c", source!("examples/c-memory/store.c")),
            file("Makefile", source!("examples/c-memory/Makefile")),
            file("fmail_plugin.h", HEADER),
        ],
        build: "make",
        result: "libfmail_example_c.so",
        about: "A store that keeps its project in memory, in C99: the log profile.",
    },
    Template {
        kind: Kind::Store,
        lang: Lang::Rust,
        named: "example-rust",
        files: &[file("src/lib.rs", source!("examples/rust-memory/src/lib.rs")), file("Cargo.toml", CARGO)],
        build: CARGO_BUILD,
        result: "target/release/libfmail_example_rust.so",
        about: "A store that keeps its project in memory, in Rust: the log profile.",
    },
    Template {
        kind: Kind::Store,
        lang: Lang::Python,
        named: "example-python",
        files: &[program("fmail-plugin-example-python", source!("examples/python-memory/fmail-plugin-example-python"))],
        build: "",
        result: "fmail-plugin-example-python",
        about: "A store that keeps its project in memory, as a program in Python: the log profile.",
    },
    Template {
        kind: Kind::Transport,
        lang: Lang::C,
        named: "example-transport",
        files: &[
            file("transport.c", source!("templates/transport.c")),
            file("Makefile", source!("templates/Makefile.in")),
            file("fmail_plugin.h", HEADER),
        ],
        build: "make",
        result: "libfmail_example_transport.so",
        about: "A transport over a Unix socket in the plugin's own directory, in C99.",
    },
    Template {
        kind: Kind::Transport,
        lang: Lang::Rust,
        named: "example-transport",
        files: &[file("src/lib.rs", source!("templates/transport.rs")), file("Cargo.toml", CARGO)],
        build: CARGO_BUILD,
        result: "target/release/libfmail_example_transport.so",
        about: "A transport over a Unix socket in the plugin's own directory, in Rust.",
    },
    Template {
        kind: Kind::Transport,
        lang: Lang::Python,
        named: "example-transport",
        files: &[program("fmail-plugin-example-transport", source!("templates/transport.py"))],
        build: "",
        result: "fmail-plugin-example-transport",
        about: "A transport over a Unix socket in the plugin's own directory, as a program in Python.",
    },
    Template {
        kind: Kind::Relay,
        lang: Lang::C,
        named: "example-relay",
        files: &[
            file("relay.c", source!("templates/relay.c")),
            file("Makefile", source!("templates/Makefile.in")),
            file("fmail_plugin.h", HEADER),
        ],
        build: "make",
        result: "libfmail_example_relay.so",
        about: "A relay that keeps all projects of one daemon in step, in C99.",
    },
    Template {
        kind: Kind::Relay,
        lang: Lang::Rust,
        named: "example-relay",
        files: &[file("src/lib.rs", source!("templates/relay.rs")), file("Cargo.toml", CARGO)],
        build: CARGO_BUILD,
        result: "target/release/libfmail_example_relay.so",
        about: "A relay that keeps all projects of one daemon in step, in Rust.",
    },
    Template {
        kind: Kind::Relay,
        lang: Lang::Python,
        named: "example-relay",
        files: &[program("fmail-plugin-example-relay", source!("templates/relay.py"))],
        build: "",
        result: "fmail-plugin-example-relay",
        about: "A relay that keeps all projects of one daemon in step, as a program in Python.",
    },
];

impl Template {
    /// Its first file, which a Makefile names.
    fn source(&self) -> &'static str {
        self.files.first().map_or("", |file| file.path)
    }

    /// A text of the template, for the plugin of this name.
    pub(super) fn made(&self, text: &str, name: &str) -> String {
        let (theirs, ours) = (self.named.replace('-', "_"), name.replace('-', "_"));
        let text = text.replace(self.named, name).replace(&theirs, &ours);
        let tokio = "tokio = { version = \"1\", features = [\"io-util\", \"net\", \"rt\", \"sync\"] }\n";
        let dependency = if self.kind == Kind::Transport { tokio } else { "" };
        text.replace("{{name}}", name)
            .replace("{{library}}", &ours)
            .replace("{{source}}", self.source())
            .replace("#tokio\n", dependency)
    }
}
