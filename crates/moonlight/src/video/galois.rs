//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), the field of the protocol's parity
//! (tables of `nanors`, which Moonlight's clients use: "generated with polynomial: 285").

use std::sync::LazyLock;

/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1d;

/// All products: row `a`, column `b`.
static PRODUCTS: LazyLock<Box<[[u8; 256]; 256]>> = LazyLock::new(|| {
    let mut products = Box::new([[0; 256]; 256]);
    for (a, row) in (0..=u8::MAX).zip(products.iter_mut()) {
        for (b, product) in (0..=u8::MAX).zip(row.iter_mut()) {
            *product = slow_product(a, b);
        }
    }
    products
});

/// The product by shifts and additions.
fn slow_product(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 };
        b >>= 1;
    }
    product
}

/// The inverse of `a`; 0 for 0.
pub(crate) fn inverse(a: u8) -> u8 {
    let row = &PRODUCTS[usize::from(a)];
    let found = row.iter().position(|product| *product == 1);
    found.map_or(0, |at| u8::try_from(at).unwrap_or(0))
}

/// Adds `factor` times each byte of `from` to the bytes of `to`, up to the shorter length.
pub(crate) fn add_product(to: &mut [u8], factor: u8, from: &[u8]) {
    let row = &PRODUCTS[usize::from(factor)];
    for (sum, byte) in to.iter_mut().zip(from) {
        *sum ^= row[usize::from(*byte)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_field_of_the_protocol() {
        // Powers of the generator 2, from the published table of this polynomial.
        let mut power = 1;
        let powers: Vec<u8> = std::iter::repeat_with(|| {
            let now = power;
            power = slow_product(power, 2);
            now
        })
        .take(255)
        .collect();
        assert_eq!(powers[..10], [1, 2, 4, 8, 16, 32, 64, 128, 29, 58]);
        let mut sorted = powers.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(1..=255), "2 is no generator");
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert_eq!(inverse(0), 0);
        for a in 1..=u8::MAX {
            assert_eq!(slow_product(a, inverse(a)), 1, "{a}");
        }
    }

    #[test]
    fn products_are_added_bytewise() {
        let mut sum = [1, 2, 3];
        add_product(&mut sum, 0, &[9, 9, 9]);
        assert_eq!(sum, [1, 2, 3]);
        add_product(&mut sum, 1, &[1, 2, 3]);
        assert_eq!(sum, [0, 0, 0]);
        add_product(&mut sum, 2, &[0x80, 1]);
        assert_eq!(sum, [POLYNOMIAL, 2, 0]);
    }
}
