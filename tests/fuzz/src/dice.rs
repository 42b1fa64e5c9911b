//! Numbers that look random and are the same in every run.

/// A generator of numbers (SplitMix64): any seed is as good as any other, also 0 and its neighbours.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`; 0 when there is none.
    pub fn roll(&mut self, sides: usize) -> usize {
        (self.number() % sides.max(1) as u64) as usize
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is nothing to choose from.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len())]
    }
}
