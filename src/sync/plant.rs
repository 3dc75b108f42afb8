//! Bugs that can be planted, in a build with `--cfg planted`: one build has
//! them all, and the environment says which of them is there. A test that
//! passes with its bug planted proves nothing; `make bugs` sees that it fails.

use std::sync::OnceLock;

static BUG: OnceLock<Option<String>> = OnceLock::new();

/// Whether the bug of this name is planted.
pub(crate) fn planted(name: &str) -> bool {
    BUG.get_or_init(|| std::env::var("HWHEEL_PLANTED").ok())
        .as_deref()
        == Some(name)
}
