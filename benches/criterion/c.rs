//! The C functions of the library that the benchmarks call: those of `include/hwheel.h`.

use std::ffi::{c_int, c_void};

/// Links the library.
pub use hwheel;

pub const ABS: u32 = 1;
pub const MANUAL: u32 = 3;

#[repr(C)]
pub struct COptions {
    pub size: u32,
    pub clock: u32,
    pub rest: [u64; 9],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CEvent {
    pub timer: u64,
    pub cookie: u64,
    pub deadline_ns: u64,
    pub missed: u32,
    pub flags: u32,
}

pub type Callback = Option<extern "C" fn(*mut c_void, *const CEvent)>;

extern "C" {
    pub fn hwheel_create(options: *const COptions, wheel: *mut *mut c_void) -> c_int;
    pub fn hwheel_destroy(wheel: *mut c_void) -> c_int;
    pub fn hwheel_timer_setup(w: *mut c_void, f: Callback, cookie: u64, t: *mut u64) -> c_int;
    pub fn hwheel_timer_mod(w: *mut c_void, timer: u64, time_ns: u64, flags: u32) -> c_int;
    pub fn hwheel_timer_delete(w: *mut c_void, timer: u64) -> c_int;
    pub fn hwheel_timer_mod_many(
        w: *mut c_void,
        timers: *const u64,
        times_ns: *const u64,
        count: u32,
        flags: u32,
        results: *mut i32,
    ) -> c_int;
    pub fn hwheel_once(
        w: *mut c_void,
        time_ns: u64,
        f: Callback,
        cookie: u64,
        flags: u32,
        timer: *mut u64,
    ) -> c_int;
    pub fn hwheel_every(
        w: *mut c_void,
        first_ns: u64,
        period_ns: u64,
        slack_ns: u64,
        f: Callback,
        cookie: u64,
        flags: u32,
        timer: *mut u64,
    ) -> c_int;
    pub fn hwheel_key_set(
        w: *mut c_void,
        key: *const c_void,
        len: u32,
        time_ns: u64,
        f: Callback,
        cookie: u64,
        flags: u32,
    ) -> c_int;
    pub fn hwheel_advance(
        w: *mut c_void,
        now_ns: u64,
        events: *mut CEvent,
        max: u32,
        run: *mut c_void,
    ) -> c_int;
    pub fn hwheel_drain(w: *mut c_void, events: *mut CEvent, max: u32) -> c_int;
}
