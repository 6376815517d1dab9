//! Check digits of ISO 7064. They find any wrong digit, nearly all swaps of two, and nearly all wrong letters.

/// A system of check digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckSystem {
    /// MOD 97-10: two digits over the text's digits and letters, as in an IBAN.
    Mod97,
    /// MOD 11,10: one digit over the text's digits.
    Mod11,
}

impl CheckSystem {
    /// How many digits it adds.
    pub(super) fn width(self) -> usize {
        match self {
            CheckSystem::Mod97 => 2,
            CheckSystem::Mod11 => 1,
        }
    }

    /// The check digits of a text.
    pub(super) fn digits(self, text: &str) -> String {
        match self {
            CheckSystem::Mod97 => {
                let remainder =
                    text.chars().filter_map(|char| char.to_digit(36)).fold(0, |sum, value| {
                        // A letter counts as the two digits of its place: 10 for A, 35 for Z.
                        let shift = if value < 10 { 10 } else { 100 };
                        (sum * shift + value) % 97
                    });
                format!("{:02}", 98 - remainder * 100 % 97)
            }
            CheckSystem::Mod11 => {
                let product = text.bytes().filter(u8::is_ascii_digit).fold(10, |product, digit| {
                    let sum = (product + u32::from(digit - b'0')) % 10;
                    (if sum == 0 { 10 } else { sum }) * 2 % 11
                });
                ((11 - product) % 10).to_string()
            }
        }
    }
}
