//! RTP payloads of AAC: the mode AAC-hbr of RFC 3640 (section 3.3.6). Each packet contains one access unit or a part of
//! it.

use openuvr_runtime::host::AAC_CONFIG;

use crate::packetise::MAX_PAYLOAD;

/// Bits of the fields of an AU header: the size of the access unit in bytes, and its index (section 3.3.6).
const SIZE_BITS: u8 = 13;
const INDEX_BITS: u8 = 3;

/// Length in bits of the AU headers.
const HEADER_BITS: u8 = SIZE_BITS + INDEX_BITS;

/// Length of the AU header section in bytes: two bytes with the length of the AU headers in bits (section 3.2.1), and
/// one AU header of two bytes.
const HEADER: usize = 4;

/// `streamtype` of sound (ISO/IEC 14496-1 table 6).
const AUDIO_STREAM: u8 = 5;

/// `profile-level-id`: the AAC profile at level 2, for two channels of up to 48 kHz (ISO/IEC 14496-3 table 1.14).
const PROFILE_LEVEL: u8 = 0x29;

/// The parameters of the SDP attribute `fmtp`, without the payload type (section 4.1).
pub(super) fn format() -> String {
    let config = AAC_CONFIG.map(|byte| format!("{byte:02X}")).concat();
    format!(
        "streamtype={AUDIO_STREAM};profile-level-id={PROFILE_LEVEL};mode=AAC-hbr;config={config};\
         sizelength={SIZE_BITS};indexlength={INDEX_BITS};indexdeltalength={INDEX_BITS}"
    )
}

/// Calls `each` with each payload of an access unit. The second argument states whether the payload is the last, which
/// has the marker bit (section 3.1). An access unit that is too long for a packet is split (section 3.2.3.1). Each part
/// has a header with the length of the whole access unit (section 3.2.1.1).
pub(super) fn payloads(unit: &[u8], mut each: impl FnMut(&[u8], bool)) {
    let Some(size) = u16::try_from(unit.len())
        .ok()
        .filter(|size| *size < 1 << SIZE_BITS)
    else {
        // An access unit that does not fit into the size field is dropped. No AAC-LC access unit of two channels is
        // that long.
        return;
    };
    // The index is 0, because each packet has one access unit.
    let [high, low] = (size << INDEX_BITS).to_be_bytes();
    let parts = unit.chunks(MAX_PAYLOAD - HEADER);
    let last = parts.len().saturating_sub(1);
    let mut payload = Vec::with_capacity(MAX_PAYLOAD);
    for (number, part) in parts.enumerate() {
        payload.clear();
        payload.extend_from_slice(&[0, HEADER_BITS, high, low]);
        payload.extend_from_slice(part);
        each(&payload, number == last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(unit: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        payloads(unit, |payload, last| all.push((payload.to_vec(), last)));
        all
    }

    #[test]
    fn an_access_unit_has_a_header_with_its_size() {
        // AU-headers-length 16 bits, AU-size 341, AU-Index 0.
        let unit = [7; 341];
        let payloads = all(&unit);
        let [(payload, last)] = &payloads[..] else {
            panic!("one payload");
        };
        assert_eq!(payload[..4], [0x00, 0x10, 0x0a, 0xa8]);
        assert_eq!((&payload[4..], *last), (&unit[..], true));
        assert_eq!(all(&[]), []);
    }

    #[test]
    fn a_long_access_unit_is_split() {
        let unit: Vec<u8> = (0..1536_u32).map(|n| n.to_le_bytes()[0]).collect();
        let parts = all(&unit);
        assert_eq!(parts.len(), 2);
        let whole: Vec<u8> = parts.iter().flat_map(|(p, _)| p[4..].to_vec()).collect();
        assert_eq!(whole, unit);
        for (number, (payload, last)) in parts.iter().enumerate() {
            assert!(payload.len() <= MAX_PAYLOAD);
            assert_eq!(payload[..4], [0x00, 0x10, 0x30, 0x00], "1536, 0");
            assert_eq!(*last, number == 1);
        }
        assert_eq!(all(&vec![0; 1 << 13]), [], "no 13-bit size");
    }
}
