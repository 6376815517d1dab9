//! Takes values off an input's front. Past its end there are zeros, so every input means something.

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of it.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Input(bytes)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Up to so many bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let head = self.bytes(N);
        array[..head.len()].copy_from_slice(head);
        array
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.u32() as usize % end
    }

    /// One of these.
    pub fn one_of<'b, T>(&mut self, all: &'b [T]) -> &'b T {
        &all[usize::from(self.u8()) % all.len()]
    }

    /// A number of any size, small ones and those near the ends of 32 and 64 bits more often than by chance.
    pub fn number(&mut self) -> i64 {
        let small = i64::from(self.array::<1>()[0].cast_signed());
        match self.u8() % 6 {
            0 => small,
            1 => i64::MAX.saturating_sub(small.abs()),
            2 => i64::MIN.saturating_add(small.abs()),
            3 => i64::from(u32::MAX) + small,
            4 => i64::from(self.u32()),
            _ => self.u64().cast_signed(),
        }
    }

    /// Text: a length of two bytes and what of it is UTF-8.
    pub fn text(&mut self) -> String {
        let length = usize::from(self.u16() % 512);
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }
}
