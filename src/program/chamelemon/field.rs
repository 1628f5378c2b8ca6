//! Arithmetic modulo the prime p = 2³² − 5, for the decoder. The dataplane adds with
//! [`super::dataplane::add`] only.

/// The largest prime of 32 bits. It is above every 31-bit ID fragment, and above every flow's
/// count.
pub const P: u32 = 4_294_967_291;

/// Inverses of small numbers, which most counts of lost packets are.
const SMALL: usize = 1024;
static INVERSES: [u32; SMALL] = inverses();

/// p mod i < i, so each inverse follows from a smaller one: i⁻¹ = −⌊p / i⌋ · (p mod i)⁻¹.
const fn inverses() -> [u32; SMALL] {
    let mut table = [1; SMALL];
    let mut i = 2;
    while i < SMALL {
        let quotient = P as u64 / i as u64;
        let rest = table[(P as u64 % i as u64) as usize] as u64;
        table[i] = (P as u64 - quotient * rest % P as u64) as u32;
        i += 1;
    }
    table
}

#[inline(always)]
pub fn add(a: u32, b: u32) -> u32 {
    let sum = u64::from(a) + u64::from(b);
    (if sum >= u64::from(P) { sum - u64::from(P) } else { sum }) as u32
}

#[inline(always)]
pub fn sub(a: u32, b: u32) -> u32 {
    add(a, P - b)
}

#[inline(always)]
pub fn mul(a: u32, b: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(P)) as u32
}

/// A count as an element of the field; a negative one stands at p − |count|.
#[inline(always)]
pub fn of(count: i64) -> u32 {
    count.rem_euclid(i64::from(P)) as u32
}

/// The element whose product with the count is 1, `None` for a multiple of p. It is what Fermat's
/// little theorem gives as count^(p − 2): with p = q a + r, a⁻¹ = −q r⁻¹, and r < a soon is so
/// small that the table has it.
#[inline(always)]
pub fn inverse(count: i64) -> Option<u32> {
    let (mut a, mut factor) = (
        u32::try_from(count.unsigned_abs()).map_or_else(|_| (count.unsigned_abs() % u64::from(P)) as u32, |a| a % P),
        1,
    );
    while a as usize >= SMALL {
        (a, factor) = (P % a, mul(factor, P - P / a));
    }
    let inverse = (a > 0).then(|| mul(factor, INVERSES[a as usize]))?;
    Some(if count < 0 { P - inverse } else { inverse })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// a^(p − 2), as the paper has it.
    fn fermat(a: u32) -> u32 {
        let (mut power, mut base, mut exponent) = (1, a, P - 2);
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = mul(power, base);
            }
            base = mul(base, base);
            exponent >>= 1;
        }
        power
    }

    #[test]
    fn p_is_the_largest_prime_of_32_bits() {
        let prime = |n: u64| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert_eq!((u64::from(P)..1 << 32).filter(|&n| prime(n)).collect::<Vec<_>>(), [u64::from(P)]);
    }

    proptest! {
        #[test]
        fn the_inverse_is_fermats(count in prop_oneof![-2000i64..2000, any::<i64>()]) {
            match inverse(count) {
                None => prop_assert_eq!(of(count), 0),
                Some(inverse) => {
                    prop_assert_eq!(mul(of(count), inverse), 1);
                    prop_assert_eq!(inverse, fermat(of(count)));
                }
            }
        }

        #[test]
        fn sums_and_differences(a in 0..P, b in 0..P) {
            prop_assert_eq!(u64::from(add(a, b)), (u64::from(a) + u64::from(b)) % u64::from(P));
            prop_assert_eq!(add(sub(a, b), b), a);
        }
    }
}
