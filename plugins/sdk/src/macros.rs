//! The macros: each makes a manifest and the one symbol that a plugin exports.

/// Makes this library a store plugin.
///
/// ```ignore
/// fmail_plugin::store! {
///     name: "mystore",
///     open: MyStore::open,                        // async fn(Envelope) -> Result<impl Store>
///     capabilities: &["shared", "durable", "import", "remove", "filter.scope"],
///     config_schema: include_str!("config.json"),
///     max_message_bytes: 1_048_576,
/// }
/// ```
///
/// `name` and `open` come first; any other field of [`Manifest`](crate::Manifest) may follow, in any order. A wrong name, an
/// unknown capability or a schema that is no JSON object is an error of the compiler.
///
/// What the manifest claims must be what [`Store::capabilities`](crate::Store::capabilities) says; otherwise no instance is
/// made.
#[macro_export]
macro_rules! store {
    ($($input:tt)*) => { $crate::__plugin! { Store, store, $($input)* } };
}

/// Makes this library a store plugin of the log profile: `open` is an `async fn(Envelope) -> Result<impl Log>`.
///
/// ```ignore
/// fmail_plugin::log_store! { name: "notes", open: Notes::open, capabilities: &["shared", "durable"] }
/// ```
///
/// See [`store!`](crate::store) for the fields.
#[macro_export]
macro_rules! log_store {
    ($($input:tt)*) => { $crate::__plugin! { Log, log, $($input)* } };
}

/// Makes this library a transport plugin: `open` is an `async fn(Envelope) -> Result<impl Transport>`.
///
/// ```ignore
/// fmail_plugin::transport! { name: "ws", open: Ws::open, config_schema: r#"{"type":"object"}"# }
/// ```
///
/// See [`store!`](crate::store) for the fields.
#[macro_export]
macro_rules! transport {
    ($($input:tt)*) => { $crate::__plugin! { Transport, transport, $($input)* } };
}

/// Makes this library a relay plugin: `open` is an `async fn(Envelope) -> Result<impl Relay>`.
///
/// ```ignore
/// fmail_plugin::relay! { name: "mirror", open: Mirror::open }
/// ```
///
/// See [`store!`](crate::store) for the fields.
#[macro_export]
macro_rules! relay {
    ($($input:tt)*) => { $crate::__plugin! { Relay, relay, $($input)* } };
}

/// What the four macros share.
#[doc(hidden)]
#[macro_export]
macro_rules! __plugin {
    ($kind:ident, $serve:ident, name: $name:expr, open: $open:expr $(, $key:ident: $value:expr)* $(,)?) => {
        #[cfg(panic = "abort")]
        compile_error!(
            "a plugin must not be built with panic = \"abort\": a panic in it would end the program that has loaded it; \
             remove `panic` from the profile in Cargo.toml"
        );

        /// This plugin, for [`fmail_plugin::run_as_program`].
        pub struct FmailPlugin;

        impl $crate::__macro::Plugin for FmailPlugin {
            #[allow(clippy::needless_update)]
            const MANIFEST: $crate::Manifest = $crate::Manifest {
                name: $name,
                $($key: $value,)*
                ..$crate::Manifest::new($crate::Kind::$kind, env!("CARGO_PKG_VERSION"))
            };

            const TEXT: &'static [u8] = {
                const MANIFEST: $crate::Manifest = <FmailPlugin as $crate::__macro::Plugin>::MANIFEST;
                const TEXT: [u8; MANIFEST.size()] = MANIFEST.text();
                &TEXT
            };

            fn open(
                envelope: $crate::Envelope,
                host: $crate::Host,
            ) -> $crate::__macro::Making {
                let manifest = <Self as $crate::__macro::Plugin>::MANIFEST;
                $crate::__macro::$serve(manifest, host, ($open)(envelope))
            }
        }

        const _: () = {
            // The symbol that the host looks for; a library has one plugin, so nothing else can have this name.
            #[allow(unsafe_code)]
            #[unsafe(export_name = "fmail_plugin_v1")]
            pub static PLUGIN: $crate::__macro::FmPlugin = $crate::__macro::table::<FmailPlugin>();
        };
    };
    ($kind:ident, $serve:ident, $($other:tt)*) => {
        compile_error!("expected `name: \"…\", open: …` first, then other fields of the manifest as `field: value`");
    };
}
