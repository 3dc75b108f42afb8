//! Making a large struct in place. By value it would pass through the stack of the
//! calling thread, which may be small, and writing it would touch pages that can
//! keep their zeros.

/// Writes the fields of a struct in place, in an unsafe block: only this thread may
/// write there. Fields after the semicolon already have their values. The compiler
/// checks that no field is missing.
macro_rules! make_at {
    ($at:expr => $name:ident { $($field:ident: $value:expr,)* $(; $($made:ident),*)? }) => {{
        let at = $at;
        $((&raw mut (*at).$field).write($value);)*
        let $name { $($field: _,)* $($($made: _),*)? } = &*at;
    }};
}
pub(crate) use make_at;
