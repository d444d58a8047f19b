//! Numbers from a seed (SplitMix64): the same seed, the same case.

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub(crate) fn word(&mut self, from: &[&str]) -> String {
        self.pick(from).to_owned()
    }

    pub(crate) fn list<T>(
        &mut self,
        most: usize,
        mut one: impl FnMut(&mut Self, usize) -> T,
    ) -> Vec<T> {
        let length = self.below(most + 1);
        (0..length).map(|nth| one(self, nth)).collect()
    }
}
