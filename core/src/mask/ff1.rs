//! FF1 (NIST SP 800-38G) for numbers of up to 64 bits in radix 2.
//!
//! In general, each of FF1's ten rounds computes a MAC of the round's whole input. Here, only the last block of the
//! input changes between rounds, because the padding precedes the round's number. The blocks before it, including the
//! tweak's, are the same for all numbers, so they are encrypted once, and a round costs one block. No branch depends on
//! the key or on a number. The crate `aes` runs in constant time, in the processor's own instructions where it has
//! them.

use aes::Aes128Enc;
use aes::cipher::BlockCipherEncrypt;

const BLOCK_BYTES: usize = 16;
const ROUNDS: u8 = 10;
/// How many numbers are encrypted together.
const LANES: usize = 8;

type Block = [u8; BLOCK_BYTES];

/// The permutation of the numbers below 2^bits under one key and tweak.
pub(super) struct Ff1 {
    cipher: Aes128Enc,
    /// The last block of each round's input, without round and half: the MAC of all blocks before it, and the tweak's
    /// last bytes.
    start: u128,
    /// Bits of the left half, which is the shorter one if they differ.
    left_bits: u8,
    right_bits: u8,
    /// The position of the round's number in the last block, in bits from its end.
    round_shift: u32,
}

impl Ff1 {
    /// `bits`: from 2 to 64.
    pub(super) fn new(cipher: &Aes128Enc, tweak: &[u8], bits: u8) -> Ff1 {
        let (left_bits, right_bits) = (bits / 2, bits - bits / 2);
        let half_bytes = usize::from(right_bits).div_ceil(8);
        let mut input = vec![1, 2, 1, 0, 0, 2, ROUNDS, left_bits];
        input.extend(u32::from(bits).to_be_bytes());
        input.extend(u32::try_from(tweak.len()).expect("a tweak is short").to_be_bytes());
        input.extend(tweak);
        // The round's number and the half fill up the last block.
        let padded = (input.len() + 1 + half_bytes).next_multiple_of(BLOCK_BYTES);
        input.resize(padded, 0);
        let (blocks, _) = input.as_chunks::<BLOCK_BYTES>();
        let (last, before) = blocks.split_last().expect("there is at least one block");
        let mac = before.iter().fold(0, |mac, block| {
            let mut block: Block = (mac ^ u128::from_be_bytes(*block)).to_be_bytes();
            cipher.encrypt_block((&mut block).into());
            u128::from_be_bytes(block)
        });
        Ff1 {
            cipher: cipher.clone(),
            start: mac ^ u128::from_be_bytes(*last),
            left_bits,
            right_bits,
            round_shift: 8 * u32::try_from(half_bytes).expect("a half has at most four bytes"),
        }
    }

    pub(super) fn encrypt(&self, number: u64) -> u64 {
        let mut numbers = [number];
        self.encrypt_lanes(&mut numbers);
        numbers[0]
    }

    pub(super) fn decrypt(&self, number: u64) -> u64 {
        let mut numbers = [number];
        self.decrypt_lanes(&mut numbers);
        numbers[0]
    }

    pub(super) fn encrypt_all(&self, numbers: &mut [u64]) {
        let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
        chunks.iter_mut().for_each(|chunk| self.encrypt_lanes(chunk));
        rest.iter_mut().for_each(|number| self.encrypt_lanes(std::array::from_mut(number)));
    }

    pub(super) fn decrypt_all(&self, numbers: &mut [u64]) {
        let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
        chunks.iter_mut().for_each(|chunk| self.decrypt_lanes(chunk));
        rest.iter_mut().for_each(|number| self.decrypt_lanes(std::array::from_mut(number)));
    }

    fn encrypt_lanes<const N: usize>(&self, numbers: &mut [u64; N]) {
        let mut left = numbers.map(|number| number >> self.right_bits);
        let mut right = numbers.map(|number| number & ones(self.right_bits));
        for round in 0..ROUNDS {
            let sums = self.round_function(round, &right);
            let bits = self.bits_of(round);
            for lane in 0..N {
                let sum = left[lane].wrapping_add(sums[lane]) & ones(bits);
                (left[lane], right[lane]) = (right[lane], sum);
            }
        }
        *numbers = std::array::from_fn(|lane| left[lane] << self.right_bits | right[lane]);
    }

    fn decrypt_lanes<const N: usize>(&self, numbers: &mut [u64; N]) {
        let mut left = numbers.map(|number| number >> self.right_bits);
        let mut right = numbers.map(|number| number & ones(self.right_bits));
        for round in (0..ROUNDS).rev() {
            let sums = self.round_function(round, &left);
            let bits = self.bits_of(round);
            for lane in 0..N {
                let difference = right[lane].wrapping_sub(sums[lane]) & ones(bits);
                (left[lane], right[lane]) = (difference, left[lane]);
            }
        }
        *numbers = std::array::from_fn(|lane| left[lane] << self.right_bits | right[lane]);
    }

    /// The bits of the half that a round changes.
    fn bits_of(&self, round: u8) -> u8 {
        if round.is_multiple_of(2) { self.left_bits } else { self.right_bits }
    }

    /// What a round adds to one half, computed from the other. This is FF1's `y`; a half of up to four bytes uses its
    /// first eight bytes.
    fn round_function<const N: usize>(&self, round: u8, halves: &[u64; N]) -> [u64; N] {
        let start = self.start ^ u128::from(round) << self.round_shift;
        let mut blocks =
            halves.map(|half| aes::Block::from((start ^ u128::from(half)).to_be_bytes()));
        self.cipher.encrypt_blocks(&mut blocks);
        blocks.map(|block| {
            let (first, _) = block.split_first_chunk().expect("a block has 16 bytes");
            u64::from_be_bytes(*first)
        })
    }
}

fn ones(bits: u8) -> u64 {
    (1 << bits) - 1
}
