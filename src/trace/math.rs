//! Logarithm and power from additions, multiplications and divisions only.
//!
//! The system's `pow` and `log` may differ in the last bit from machine to machine, and one bit can
//! move a packet from one flow to another. These two do not differ. Relative error about 1e-14,
//! which is ample here.

use std::f64::consts::{LN_2, SQRT_2};

/// ln 2 in two parts, the first short enough that its product with an exponent is exact.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Natural logarithm of a positive normal number.
pub fn ln(x: f64) -> f64 {
    debug_assert!(x >= f64::MIN_POSITIVE && x.is_finite());
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh t; |t| < 0.172, so 13 terms reach the last bit.
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let series = (0..13).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * LN2_HIGH + (2.0 * t * series + exponent as f64 * LN2_LOW)
}

/// e^x for |x| below 700.
fn exp(x: f64) -> f64 {
    let scaled = x / LN_2;
    let k = (if scaled < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i64;
    let r = (x - k as f64 * LN2_HIGH) - k as f64 * LN2_LOW;
    let series = (1..16).rev().fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    series * f64::from_bits(((1023 + k) as u64) << 52)
}

/// x^y for positive x, while the result stays within e^±700.
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

#[cfg(test)]
mod tests {
    #[test]
    fn close_to_the_systems() {
        for i in 1..4000 {
            let x = f64::from(i) * 0.37;
            assert!((super::ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0), "ln {x}");
            for y in [-2.275, -1.0, -0.4425, 0.77, 1.3] {
                let (got, want) = (super::pow(x, y), x.powf(y));
                assert!((got - want).abs() <= 1e-14 * want, "{x}^{y}: {got} {want}");
            }
        }
    }
}
