//! Static probes for tracers (USDT); docs/PROBES.md describes them.
//!
//! With the feature `probes` each is a `nop`, and a note in the library that
//! tells where it is and which registers hold its arguments. Without it there is
//! not a byte. The crate `probe` writes the notes: it has no dependencies, wants
//! no registration and no build script, as `usdt` does.

/// `probe!(name, wheel, arguments...)`: a probe of the provider `hwheel`, whose
/// first argument is the wheel as C knows it. Arguments are what is at hand,
/// cast to 64 bits, as they are computed whether somebody traces or not.
macro_rules! probe {
    ($name:ident, $wheel:expr $(, $arg:expr)*) => {
        #[cfg(feature = "probes")]
        ::probe::probe!(hwheel, $name, std::ptr::from_ref($wheel) $(, $arg)*);
    };
}
