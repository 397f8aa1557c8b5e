//! Parity of the protocol's forward error correction: a systematic Reed–Solomon code whose parity rows form a Cauchy
//! matrix.
//!
//! With `p` parity packets, the coefficient of data packet `i` in parity packet `j` is the inverse of `(p + i) xor j`
//! (`reed_solomon_new` of `nanors`, which Moonlight's clients use). Sound instead has a fixed matrix for four data
//! packets and two parity packets (`RtpAudioQueue.c` of moonlight-common-c).
//!
//! Published crates do not fit. `fec-rs` 0.1 has this matrix, but inverts an n × n matrix to derive the rows of n data
//! packets. It repeats this for each new combination of the numbers of data packets and parity packets. With frames of
//! varying length, new combinations occur all the time. `reed-solomon-erasure` and `reed-solomon-simd` have other
//! matrices.

use super::galois::{add_product, inverse};

/// Maximum packets of a code word, data and parity together: the number of nonzero elements of the field.
pub const MAX_PACKETS: usize = 255;

/// The coefficient of data packet `data` in parity packet `parity`, with `count` parity packets in total.
fn coefficient(count: usize, data: usize, parity: usize) -> u8 {
    let index = (count + data) ^ parity;
    inverse(u8::try_from(index).unwrap_or(0))
}

/// Computes `count` parity packets of `length` bytes each for `data`. Shorter data counts as padded with zeros. The
/// caller keeps the number of data and parity packets within [`MAX_PACKETS`].
#[must_use]
pub fn parity(data: &[&[u8]], count: usize, length: usize) -> Vec<Vec<u8>> {
    combined(data, count, length, |data, parity| {
        coefficient(count, data, parity)
    })
}

/// Data packets of a block of sound.
pub const SOUND_DATA: usize = 4;

/// Parity packets of a block of sound.
pub const SOUND_PARITY: usize = 2;

/// The matrix rows of the two parity packets of sound.
const SOUND_ROWS: [[u8; SOUND_DATA]; SOUND_PARITY] =
    [[0x77, 0x40, 0x38, 0x0e], [0xc7, 0xa7, 0x0d, 0x6c]];

/// The parity of a block of sound.
#[must_use]
pub fn sound_parity(data: &[&[u8]; SOUND_DATA], length: usize) -> Vec<Vec<u8>> {
    combined(data, SOUND_PARITY, length, |data, parity| {
        SOUND_ROWS[parity][data]
    })
}

fn combined(
    data: &[&[u8]],
    count: usize,
    length: usize,
    coefficient: impl Fn(usize, usize) -> u8,
) -> Vec<Vec<u8>> {
    let one = |parity| {
        let mut sum = vec![0; length];
        for (index, bytes) in data.iter().enumerate() {
            add_product(&mut sum, coefficient(index, parity), bytes);
        }
        sum
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Solves for the lost data packets by elimination over the received ones.
    fn recovered(
        data: &[Vec<u8>],
        parity: &[Vec<u8>],
        lost: &[usize],
        coefficient: impl Fn(usize, usize) -> u8,
    ) -> Vec<Vec<u8>> {
        // One equation per lost packet: the coefficients of the unknowns, and the remaining sum.
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = (0..lost.len())
            .map(|row| {
                let mut rest = parity[row].clone();
                for (index, bytes) in data.iter().enumerate().filter(|(i, _)| !lost.contains(i)) {
                    add_product(&mut rest, coefficient(index, row), bytes);
                }
                (lost.iter().map(|i| coefficient(*i, row)).collect(), rest)
            })
            .collect();
        for column in 0..lost.len() {
            let pivot = (column..lost.len())
                .find(|row| rows[*row].0[column] != 0)
                .expect("the code corrects any such loss");
            rows.swap(column, pivot);
            let (unknowns, rest) = rows[column].clone();
            let scale = inverse(unknowns[column]);
            let scaled = |bytes: &[u8]| {
                let mut product = vec![0; bytes.len()];
                add_product(&mut product, scale, bytes);
                product
            };
            let normal = (scaled(&unknowns), scaled(&rest));
            let others = rows
                .iter_mut()
                .enumerate()
                .filter(|(row, _)| *row != column);
            for (_, other) in others {
                let factor = other.0[column];
                add_product(&mut other.0, factor, &normal.0);
                add_product(&mut other.1, factor, &normal.1);
            }
            rows[column] = normal;
        }
        rows.into_iter().map(|(_, rest)| rest).collect()
    }

    fn data(count: usize, length: usize) -> Vec<Vec<u8>> {
        let byte = |i: usize, j: usize| u8::try_from((i * 37 + j * 11 + i * j) % 256).unwrap();
        (0..count)
            .map(|i| (0..length).map(|j| byte(i, j)).collect())
            .collect()
    }

    #[test]
    fn as_many_packets_as_parity_can_be_lost() {
        for (count, redundant) in [(1, 2), (4, 2), (15, 3), (200, 55)] {
            let data = data(count, 32);
            let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let made = parity(&slices, redundant, 32);
            let lost: Vec<usize> = (0..count).rev().take(redundant).collect();
            let found = recovered(&data, &made, &lost, |i, j| coefficient(redundant, i, j));
            let expected: Vec<Vec<u8>> = lost.iter().map(|i| data[*i].clone()).collect();
            assert_eq!(found, expected, "{count} + {redundant}");
        }
    }

    #[test]
    fn two_of_four_packets_of_sound_can_be_lost() {
        let data = data(SOUND_DATA, 24);
        let slices: [&[u8]; SOUND_DATA] = std::array::from_fn(|i| data[i].as_slice());
        let made = sound_parity(&slices, 24);
        for lost in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
            let found = recovered(&data, &made, &lost, |i, j| SOUND_ROWS[j][i]);
            assert_eq!(found, lost.map(|i| data[i].clone()));
        }
    }

    #[test]
    fn short_packets_count_as_padded() {
        let padded = parity(&[&[1, 2, 0, 0], &[3, 4, 5, 6]], 2, 4);
        assert_eq!(parity(&[&[1, 2], &[3, 4, 5, 6]], 2, 4), padded);
    }
}
