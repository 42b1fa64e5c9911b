//! A flag that goes up once, and whoever waits for it.

use fmail_plugin::tokio::sync::watch;

/// One end of it.
pub type Flag = watch::Receiver<bool>;

/// Waits until the flag is up, or nobody is left to raise it.
pub async fn raised(flag: &mut Flag) {
    drop(flag.wait_for(|up| *up).await);
}
