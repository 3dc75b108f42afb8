//! The bytes of a key, as the table keeps them: short ones in place, so that a
//! number or a short name costs no allocation, and no cache miss to compare.

use alloc::vec::Vec;

/// With the tag and the length as large as the other variant, aligned.
const SHORT: usize = 30;

pub(super) enum Name {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Vec<u8>),
}

impl Name {
    /// No key has it: keys are not empty.
    pub const NONE: Name = Name::Short {
        len: 0,
        bytes: [0; SHORT],
    };

    /// A copy of a key; none without memory.
    pub fn of(key: &[u8]) -> Option<Name> {
        if key.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..key.len()].copy_from_slice(key);
            let len = key.len() as u8;
            return Some(Name::Short { len, bytes });
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(key.len()).ok()?;
        copy.extend_from_slice(key);
        Some(Name::Long(copy))
    }

    pub fn is(&self, key: &[u8]) -> bool {
        match self {
            Name::Short { len, bytes } => &bytes[..usize::from(*len)] == key,
            Name::Long(bytes) => bytes == key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_are_what_they_are_a_copy_of() {
        assert_eq!(size_of::<Name>(), 32);
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 1..256 {
            let name = Name::of(&bytes[..len]).unwrap();
            assert!(name.is(&bytes[..len]));
            assert!(!name.is(&bytes[..len - 1]) && !name.is(&bytes[..len + 1]));
            assert!(!name.is(&bytes[1..=len]) && !Name::NONE.is(&bytes[..len]));
            assert_eq!(matches!(name, Name::Short { .. }), len <= SHORT);
        }
    }
}
