//! Static probes for tracers (USDT); docs/PROBES.md describes them.
//!
//! With the feature `probes` each probe is a `nop`, and a note in the library with
//! its place and the registers of its arguments. Without the feature it takes no
//! byte. The crate `probe` writes the notes: unlike `usdt` it needs no
//! dependencies, registration or build script.

/// `probe!(name, wheel, arguments...)`: a probe of the provider `hwheel`, whose
/// first argument is the wheel as C knows it. Arguments are values at hand, cast to
/// 64 bits, because they are computed even without a tracer.
macro_rules! probe {
    ($name:ident, $wheel:expr $(, $arg:expr)*) => {
        #[cfg(feature = "probes")]
        ::probe::probe!(hwheel, $name, core::ptr::from_ref($wheel) $(, $arg)*);
    };
}
