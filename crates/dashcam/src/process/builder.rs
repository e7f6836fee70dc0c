//! `dashcam::start(Config)`: starting from Rust.
//!
//! How it works: a `Config` is the list of what the caller gives; there is one method for each
//! setting, made from the same declaration as its environment variable (crate `settings`).
//! Values are texts, as everywhere (`"500ms"`, `"64MiB"`), so numbers and switches (`50`, `false`)
//! do too.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::control::{before_exit, start_with_runtime, StartError};
use crate::recording::runtime::Runtime;

macro_rules! builders {
    ($($name:ident => $field:ident: $kind:ident, $default:literal, $accepts:literal,
       $when:ident, $listed:ident, $sentence:literal;)*) => {
        impl Config {
            $(
                #[doc = concat!($sentence, "\n\nAccepted: ", $accepts, ". Default: `", $default, "`.")]
                #[must_use]
                pub fn $name(self, value: impl ToString) -> Self {
                    self.with(stringify!($name), value)
                }
            )*
        }
    };
}

::settings::settings!(builders);

/// What a Rust program gives to `start`. What is not given comes from the environment
/// (`DASHCAM_<NAME>`, which also wins over what is given) or is the default.
///
/// ```
/// let config = dashcam::Config::new().service("billy").slow("500ms, checkout>250ms").keep(20);
/// # let _ = config;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    given: Vec<(String, String)>,
}

impl Config {
    /// All defaults.
    #[must_use]
    pub fn new() -> Config {
        Config::default()
    }

    /// Gives a setting by its name; the later of two wins. `start` refuses unknown names.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Config {
        self.given.retain(|(n, _)| n != name);
        self.given.push((name.to_owned(), value.to_string()));
        self
    }
}

/// Starts recording in this process, and removes the black box when the process ends in order.
/// Idempotent: false when it was on already, or when `DASHCAM_ENABLED=0` turns it off. In a forked
/// child recording goes on by itself, with its parent's settings.
///
/// Errors: a wrong value, with the range wanted; no memory for the black box. Nothing has changed
/// then, and a service may well go on without a recorder.
///
/// ```
/// let out = std::env::temp_dir().join(format!("dashcam-doc-{}", std::process::id()));
/// dashcam::start(dashcam::Config::new().service("billy").memory("1MiB").out(out.display()))?;
/// {
///     let mut request = dashcam::request!("GET /checkout", user = 42);
///     let _span = dashcam::span!("db.query", rows = 3);
///     dashcam::event!("cache.miss", key = "k1");
///     request.set("user", 43);
/// }
/// let path = dashcam::snap("looked odd")?;
/// assert!(path.starts_with(&out));
/// dashcam::stop();
/// # std::fs::remove_dir_all(&out)?;
///
/// let wrong = dashcam::start(dashcam::Config::new().memory("9TiB"));
/// assert!(wrong.is_err_and(|e| e.to_string().contains("wanted 1MiB to 4GiB")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn start(config: Config) -> Result<bool, StartError> {
    /// Written behind the registration, so that a child that was forked in between registers again;
    /// what runs twice at the end finds nothing to do the second time.
    static AT_EXIT: AtomicBool = AtomicBool::new(false);
    sys::environment::copy();
    let started = start_with_runtime(&config.given, Runtime::default())?;
    if started && !AT_EXIT.load(Ordering::Relaxed) {
        // Refused only when there is no memory; then the box is left, as after a kill.
        let _ = sys::exit::at_exit(last);
        AT_EXIT.store(true, Ordering::Relaxed);
    }
    Ok(started)
}

extern "C" fn last() {
    // A panic must not leave a function that C calls.
    let _ = std::panic::catch_unwind(before_exit);
}
