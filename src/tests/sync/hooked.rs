//! Atomics that do what those of `real` do, but ask `hook` first, with the ordering and its
//! place among the arguments, which ordering to use; and before that they take their turn, by
//! `Turns`. The module that says `hooked!()`, or `hooked!(const)` where statics are made of
//! them, has `real`, `hook`, `Turns` and an `Ordering`.

macro_rules! hooked {
    ({$($const:tt)?} $name:ident $([$t:ident])?, $value:ty $(, $fetch:ident)*) => {
        pub(crate) struct $name $(<$t>)? (real::$name $(<$t>)?, Turns);

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                Self(Default::default(), Turns::default())
            }
        }

        // Not each is used with every type.
        #[allow(dead_code)]
        impl $(<$t>)? $name $(<$t>)? {
            pub $($const)? fn new(value: $value) -> Self {
                Self(real::$name::new(value), Turns::new())
            }
            /// For an access, in its turn.
            fn real(&self) -> &real::$name $(<$t>)? {
                self.1.take();
                &self.0
            }
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.real().load(hook(order, 0))
            }
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.real().store(value, hook(order, 0));
            }
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.real().swap(value, hook(order, 0))
            }
            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.real().compare_exchange(old, new, hook(success, 0), hook(failure, 1))
            }
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.real().compare_exchange_weak(old, new, hook(success, 0), hook(failure, 1))
            }
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.real().fetch_update(hook(success, 0), hook(failure, 1), f)
            }
            $(#[track_caller]
            pub fn $fetch(&self, value: $value, order: Ordering) -> $value {
                self.real().$fetch(value, hook(order, 0))
            })*
        }
    };
    ($($const:tt)?) => {
        hooked!({$($const)?} AtomicPtr[T], *mut T);
        hooked!({$($const)?} AtomicI32, i32);
        hooked!({$($const)?} AtomicU32, u32, fetch_add, fetch_and, fetch_or, fetch_sub);
        hooked!({$($const)?} AtomicU64, u64, fetch_add, fetch_and, fetch_max, fetch_min,
            fetch_or, fetch_sub);
        hooked!({$($const)?} AtomicUsize, usize);
    };
}
