//! Making a large struct where it is to lie. By value it would go over the stack of
//! the calling thread, which may be small, and writing it would touch pages whose
//! zeros are what they are to hold.

/// Writes the fields of a struct in place, in an unsafe block: the place is for this
/// thread alone to write. Fields after the semicolon are there already. None can be
/// forgotten.
macro_rules! make_at {
    ($at:expr => $name:ident { $($field:ident: $value:expr,)* $(; $($made:ident),*)? }) => {{
        let at = $at;
        $((&raw mut (*at).$field).write($value);)*
        let $name { $($field: _,)* $($($made: _),*)? } = &*at;
    }};
}
pub(crate) use make_at;
