//! The chunks in which threads write their notes, shared by all inboxes of a wheel.
//!
//! A chunk belongs to one inbox, or is free. Free chunks form a stack (`stack.rs`).
//! Chunks stay mapped until the wheel is destroyed, so that their links stay readable.

use super::error::Error;
use super::stack::{Stack, NUMBER};
use super::tunables::{NOTES, NOTE_BLOCKS, NOTE_CHUNK_BITS};
use crate::sync::{init, AtomicPtr, AtomicU32, Fresh, Ordering};
use crate::sys::maps::{map, unmap, Pages};

const BLOCK: usize = 1 << NOTE_CHUNK_BITS;
const _: () = assert!(NOTE_BLOCKS * BLOCK - 1 <= NUMBER as usize);
const BYTES: usize = BLOCK * size_of::<Chunk>();

/// All zero is a fresh chunk.
#[derive(Default)]
#[repr(C)]
#[cfg_attr(not(checked), repr(align(256)))]
pub(super) struct Chunk {
    /// The chunk that follows, in an inbox or in the stack of free chunks; or 0.
    pub next: AtomicU32,
    notes: Notes,
}

struct Notes([AtomicU32; NOTES]);

impl Default for Notes {
    fn default() -> Self {
        Notes(core::array::from_fn(|_| AtomicU32::default()))
    }
}

impl Fresh for Chunk {}
const _: () = assert!(cfg!(checked) || size_of::<Chunk>() == 256);

impl Chunk {
    /// The note at a place, which is not that of the header.
    #[inline(always)]
    pub fn note(&self, place: u64) -> &AtomicU32 {
        &self.notes.0[place as usize - 1]
    }

    /// The notes at `n` places, from a place on.
    #[inline(always)]
    pub fn notes(&self, place: u64, n: u64) -> &[AtomicU32] {
        &self.notes.0[place as usize - 1..][..n as usize]
    }
}

pub(super) struct Chunks {
    blocks: [AtomicPtr<Chunk>; NOTE_BLOCKS],
    free: Stack,
    /// The next chunk that was never used.
    fresh: AtomicU32,
}

impl Chunks {
    /// # Safety
    /// `at` is zeroed, and the caller's alone to write.
    pub unsafe fn make(at: *mut Chunks) {
        // SAFETY: the caller's promise.
        unsafe {
            init(
                (&raw mut (*at).blocks).cast::<AtomicPtr<Chunk>>(),
                NOTE_BLOCKS,
            );
            (&raw mut (*at).free).write(Stack::default());
            // The number 0 is no chunk.
            (&raw mut (*at).fresh).write(AtomicU32::new(1));
        }
    }

    /// The chunk of a number that `take` has returned.
    #[inline(always)]
    pub fn chunk(&self, number: u32) -> &Chunk {
        let block = &self.blocks[number as usize / BLOCK];
        // Acquire: pairs with the Release in `take_fresh`.
        let at = block.load(Ordering::Acquire);
        // SAFETY: the block of a chunk that was taken is mapped.
        unsafe { &*at.add(number as usize % BLOCK) }
    }

    /// A chunk for the caller; `None` without memory. Lock-free.
    #[cold]
    pub fn take(&self) -> Option<u32> {
        // Relaxed: the Acquire of the stack covers it.
        let link = |number| self.chunk(number).next.load(Ordering::Relaxed);
        let free = || self.free.take(link);
        // Once each mapped chunk has been used, every chunk that is not in use is in the stack.
        free().or_else(|| self.take_fresh()).or_else(free)
    }

    /// Maps a number of chunks, as far as there is room for them; under loom, none.
    #[cold]
    pub fn provide(&self, number: u64) -> Result<(), Error> {
        if cfg!(loom) {
            return Ok(()); // Each execution would map all blocks anew.
        }
        let last = usize::try_from(number).map_or(NOTE_BLOCKS, |n| n / BLOCK);
        let blocks = &self.blocks[..=last.min(NOTE_BLOCKS - 1)];
        // From the first to the last: no block is missing before one that is mapped.
        let is_missing = |block: &&AtomicPtr<Chunk>| block.load(Ordering::Acquire).is_null();
        let missing = blocks.iter().rev().take_while(is_missing).count();
        let mut mapped = blocks[blocks.len() - missing..].iter().map(Self::map_block);
        mapped.try_for_each(|made| made.ok_or(Error::Memory))
    }

    fn take_fresh(&self) -> Option<u32> {
        // Relaxed: only compared; the exchange decides.
        let mut number = self.fresh.load(Ordering::Relaxed);
        loop {
            // Reserve before committing: a failed map takes no number.
            let block = self.blocks.get(number as usize / BLOCK)?;
            if block.load(Ordering::Acquire).is_null() {
                Self::map_block(block)?;
            }
            // Relaxed, both: the block is published by its own word.
            match self.fresh.compare_exchange_weak(
                number,
                number + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(number),
                Err(seen) => number = seen,
            }
        }
    }

    fn map_block(block: &AtomicPtr<Chunk>) -> Option<()> {
        let fresh = map(BYTES, Pages::Small).cast::<Chunk>();
        if fresh.is_null() {
            return None;
        }
        // SAFETY: zeroed bytes, seen by nobody else yet.
        unsafe { init(fresh, BLOCK) };
        let null = core::ptr::null_mut();
        // Release: publishes the block; pairs with the Acquires above.
        if block
            .compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: nobody has seen `fresh`.
            unsafe { unmap(fresh.cast(), BYTES) };
        }
        Some(())
    }

    /// Frees a chunk that the caller owns. Lock-free.
    pub fn give_back(&self, number: u32) {
        let link = &self.chunk(number).next;
        // Relaxed: published by the stack.
        self.free
            .put(number, |below| link.store(below, Ordering::Relaxed));
    }

    /// Bytes of the chunks that were used so far.
    pub fn bytes(&self) -> u64 {
        // Relaxed: a number.
        let chunks = self.fresh.load(Ordering::Relaxed) as usize - 1;
        (chunks * size_of::<Chunk>()) as u64
    }

    /// # Safety
    /// No thread uses the chunks any more.
    pub unsafe fn unmap(&mut self) {
        for block in &self.blocks {
            let at = block.load(Ordering::Acquire);
            if !at.is_null() {
                // SAFETY: mapped by `map_block`.
                unsafe { unmap(at.cast(), BYTES) };
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Three threads on the stack itself: a chunk is one thread's, with all of its notes, though
    /// it is taken, given back and taken again while another thread is about to take it.
    #[test]
    fn stack_of_chunks_take_against_take_and_give_back() {
        struct Stack(Chunks, [AtomicU32; 8]);
        // SAFETY: as in a wheel.
        unsafe impl Send for Stack {}
        // SAFETY: as above.
        unsafe impl Sync for Stack {}
        impl Stack {
            fn new() -> Stack {
                let mut place = core::mem::MaybeUninit::zeroed();
                // SAFETY: zeroed, and made before it is used.
                let chunks = unsafe {
                    Chunks::make(place.as_mut_ptr());
                    place.assume_init()
                };
                let stack = Stack(chunks, Default::default());
                let taken = [(); 3].map(|()| stack.0.take().unwrap());
                taken.iter().for_each(|chunk| stack.0.give_back(*chunk));
                stack
            }
            fn take(&self) -> u32 {
                let chunk = self.0.take().unwrap();
                let owners = self.1[chunk as usize].fetch_add(1, Ordering::Relaxed);
                assert_eq!(owners, 0, "of two threads");
                // Plain words, as far as the stack is concerned.
                self.0.chunk(chunk).note(1).store(chunk, Ordering::Relaxed);
                chunk
            }
            fn give_back(&self, chunk: u32) {
                let note = self.0.chunk(chunk).note(1).load(Ordering::Relaxed);
                assert_eq!(note, chunk);
                self.1[chunk as usize].fetch_sub(1, Ordering::Relaxed);
                self.0.give_back(chunk);
            }
        }
        impl Drop for Stack {
            fn drop(&mut self) {
                // SAFETY: nobody uses it any more.
                unsafe { self.0.unmap() };
            }
        }
        loom::model(|| {
            let stack = Arc::new(Stack::new());
            let other = stack.clone();
            let taker = thread::spawn(move || other.take());
            let mine = [stack.take(), stack.take()];
            stack.give_back(mine[0]);
            let again = stack.take();
            let theirs = taker.join().unwrap();
            stack.give_back(theirs);
            stack.give_back(again);
            stack.give_back(mine[1]);
            let mut all = [(); 3].map(|()| stack.take());
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3], "lost or doubled");
        });
    }
}
