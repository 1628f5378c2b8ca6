use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn addition_is_modular(reg in 0..P, fragment in 0u32..1 << 31) {
        let sum = (u64::from(reg) + u64::from(fragment)) % u64::from(P);
        prop_assert_eq!(u64::from(add(reg, P - fragment)), sum);
    }

    #[test]
    fn a_share_is_sampled(seed: u16, threshold in 0..=1u32 << 16) {
        let sampled = (0..1u32 << 16).filter(|hash| samples(hash << 16 | 0xbeef, threshold, seed)).count();
        prop_assert_eq!(sampled as u32, threshold);
    }
}

#[test]
fn all_ones_is_infinity() {
    assert_eq!([0xfdu8, 0xfe, 0xff].map(|c| c.incremented().size()), [254, u32::MAX, u32::MAX]);
    assert_eq!([0xfffdu16, 0xfffe].map(|c| c.incremented().size()), [65_534, u32::MAX]);
}
