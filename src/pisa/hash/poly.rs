//! Polynomials over GF(2) of degree 32: the identity of a hash unit, and its secret.

use std::fmt;

/// A generator polynomial x³² + … + 1. It is a secret of the deployment, so it has no `Debug` that
/// shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Polynomial(u32);

impl Polynomial {
    /// Polynomials that are in print, most of them in use as checksums, the sparse ones last: a
    /// sparse polynomial mixes keys less. Where nobody can aim at the sketches, or the target fixes
    /// its polynomials at compile time, these do.
    pub const STANDARD: [Self; 16] = [
        Self(0x04c1_1db7), // IEEE 802.3, zlib: BMv2's crc32
        Self(0x1edc_6f41), // Castagnoli's CRC-32C: iSCSI, the SSE 4.2 instruction
        Self(0x741b_8cd7), // Koopman's CRC-32K: Metro Ethernet Forum
        Self(0x3258_3499), // Koopman's CRC-32K2
        Self(0xf4ac_fb13), // AUTOSAR
        Self(0xa833_982b), // CRC-32D: base91
        Self(0x8141_41ab), // CRC-32Q: aeronautical information
        Self(0xf192_2815), // Castagnoli et al. 1993, CRC-32/4
        Self(0x2004_4009), // Koopman 2002, sparse {1,1,30}
        Self(0x0021_0801), // Koopman 2002, sparse {32}
        Self(0x8001_801b), // CD-ROM error detection
        Self(0x4600_0001), // Ward and Molteno, shift register taps 32, 30, 26, 25
        Self(0x0040_0007), // Xilinx XAPP 052, taps 32, 22, 2, 1
        Self(0x0000_00c5), // Schneier, Applied Cryptography: 32, 7, 6, 2
        Self(0x0000_00af), // XFER
        Self(0x0000_008d), // Seroussi's table of low-weight irreducible polynomials
    ];

    /// From the coefficients of x³¹ … x⁰, x³¹ in the highest bit: the notation of `0x04C11DB7`.
    /// `None` without a constant term, because such a CRC forgets the first bits of a long key.
    pub const fn new(coefficients: u32) -> Option<Self> {
        if coefficients & 1 == 1 { Some(Self(coefficients)) } else { None }
    }

    /// The coefficients as [`Polynomial::new`] takes them, to set up a P4 target. Whoever learns
    /// them can aim at the sketches.
    pub const fn reveal(self) -> u32 {
        self.0
    }

    /// The form that a reflected CRC computes with: x³¹ in the lowest bit.
    pub(super) const fn reflected(self) -> u32 {
        self.0.reverse_bits()
    }

    /// Rabin's test. x^(2^k) mod f by k squarings; 2 is the only prime factor of 32, so f is
    /// irreducible if and only if x^(2^32) = x (mod f) and gcd(x^(2^16) − x, f) = 1.
    pub const fn is_irreducible(self) -> bool {
        // An even number of terms has the factor x + 1.
        if self.0.count_ones() % 2 == 1 {
            return false;
        }
        let mut power = X;
        let mut half = 0;
        let mut k = 0;
        while k < 32 {
            power = self.squared(power);
            k += 1;
            if k == 16 {
                half = power;
            }
        }
        power == X && gcd(self.whole(), (half ^ X) as u64) == 1
    }

    /// All 33 coefficients.
    const fn whole(self) -> u64 {
        1 << 32 | self.0 as u64
    }

    /// a² mod f. A square has the coefficients of a with zeros between them.
    // Inlined into the loop of `is_irreducible`, its unrolled loop costs LLVM 22 minutes: the search
    // for CRCs (HashRecognize) follows both uses of each of 32 values.
    #[inline(never)]
    const fn squared(self, a: u32) -> u32 {
        let mut square = a as u64;
        square = (square | square << 16) & 0x0000_ffff_0000_ffff;
        square = (square | square << 8) & 0x00ff_00ff_00ff_00ff;
        square = (square | square << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        square = (square | square << 2) & 0x3333_3333_3333_3333;
        square = (square | square << 1) & 0x5555_5555_5555_5555;
        let mut bit = 32;
        while bit > 0 {
            bit -= 1;
            // All ones if x^(bit + 32) is still there, without a branch.
            square ^= self.whole() << bit & (square >> (bit + 32) & 1).wrapping_neg();
        }
        square as u32
    }
}

impl fmt::Debug for Polynomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Polynomial(secret)")
    }
}

/// The polynomial x.
const X: u32 = 0b10;

/// Euclid's algorithm.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        while a != 0 && degree(a) >= degree(b) {
            a ^= b << (degree(a) - degree(b));
        }
        (a, b) = (b, a);
    }
    a
}

const fn degree(a: u64) -> u32 {
    a.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divides(d: u64, mut a: u64) -> bool {
        while a != 0 && degree(a) >= degree(d) {
            a ^= d << (degree(a) - degree(d));
        }
        a == 0
    }

    /// The oracle: no divisor of degree 1 to 16.
    fn irreducible_by_trial(f: Polynomial) -> bool {
        (2..1 << 17).all(|d| !divides(d, f.whole()))
    }

    #[test]
    fn rabin_agrees_with_trial_division() {
        let mut word = 1u32;
        for _ in 0..100 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let f = Polynomial(word | 1);
            assert_eq!(f.is_irreducible(), irreducible_by_trial(f), "{:08x}", f.0);
        }
    }

    #[test]
    fn published_factorisations() {
        // Koopman 2002: {32} is irreducible, {1,31}, {1,3,28} and the like are not.
        let irreducible = [0x04c1_1db7, 0xa833_982b, 0x0021_0801, 0x0000_00af, 0x0000_008d, 0x0000_00c5, 0x0040_0007];
        let factors = [0x1edc_6f41, 0x741b_8cd7, 0x3258_3499, 0xf4ac_fb13, 0x2004_4009];
        assert!(irreducible.iter().all(|&f| Polynomial(f).is_irreducible()));
        assert!(factors.iter().all(|&f| !Polynomial(f).is_irreducible()));
    }

    #[test]
    fn standard_polynomials_differ_and_have_a_constant_term() {
        for (i, p) in Polynomial::STANDARD.iter().enumerate() {
            assert_eq!(Polynomial::new(p.0), Some(*p));
            assert!(!Polynomial::STANDARD[..i].contains(p));
        }
        assert_eq!(Polynomial::new(0x04c1_1db6), None);
    }

    #[test]
    fn one_odd_word_in_sixteen_is_irreducible() {
        let found = (0..4000).filter(|i| Polynomial(0x8000_0001 + 2 * 7919 * i).is_irreducible()).count();
        assert!((200..300).contains(&found), "{found}");
    }

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(format!("{:?}", Polynomial::STANDARD[0]), "Polynomial(secret)");
    }
}
