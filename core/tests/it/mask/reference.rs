//! FF1 as written in NIST SP 800-38G, step by step over numerals, for any radix. It shares only the block cipher with
//! the core's own FF1.

use aes::cipher::BlockCipherEncrypt;

pub fn encrypt<C>(cipher: &C, radix: u32, tweak: &[u8], plain: &[u32]) -> Vec<u32>
where
    C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    let (n, t) = (plain.len(), tweak.len());
    let u = n / 2;
    let v = n - u;
    let (mut a, mut b) = (plain[..u].to_vec(), plain[u..].to_vec());
    let bits = (v as f64 * f64::from(radix).log2()).ceil() as usize;
    let bytes = bits.div_ceil(8);
    let d = 4 * bytes.div_ceil(4) + 4;
    let mut p = vec![1, 2, 1];
    p.extend(&radix.to_be_bytes()[1..]);
    p.extend([10, (u % 256) as u8]);
    p.extend((n as u32).to_be_bytes());
    p.extend((t as u32).to_be_bytes());
    for i in 0..10u8 {
        let mut q = tweak.to_vec();
        while !(q.len() + 1 + bytes).is_multiple_of(16) {
            q.push(0);
        }
        q.push(i);
        q.extend(&num(&b, radix).to_be_bytes()[16 - bytes..]);
        let mut r = [0u8; 16];
        for block in [p.clone(), q].concat().chunks(16) {
            for (r, byte) in r.iter_mut().zip(block) {
                *r ^= byte;
            }
            cipher.encrypt_block((&mut r).into());
        }
        assert!(d <= 16, "one block of S is enough for these tests");
        let y = r[..d].iter().fold(0u128, |y, byte| y << 8 | u128::from(*byte));
        let m = if i % 2 == 0 { u } else { v };
        let c = (num(&a, radix) + y) % u128::from(radix).pow(m as u32);
        a = std::mem::replace(&mut b, str_of(c, radix, m));
    }
    a.extend(b);
    a
}

fn num(numerals: &[u32], radix: u32) -> u128 {
    numerals.iter().fold(0, |value, digit| value * u128::from(radix) + u128::from(*digit))
}

fn str_of(mut value: u128, radix: u32, length: usize) -> Vec<u32> {
    let mut numerals = vec![0; length];
    for numeral in numerals.iter_mut().rev() {
        *numeral = (value % u128::from(radix)) as u32;
        value /= u128::from(radix);
    }
    numerals
}

/// The bits of a number, highest first.
pub fn bits_of(number: u64, bits: u8) -> Vec<u32> {
    str_of(u128::from(number), 2, usize::from(bits))
}

pub fn number_of(bits: &[u32]) -> u64 {
    num(bits, 2) as u64
}
